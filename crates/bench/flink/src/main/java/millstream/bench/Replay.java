package millstream.bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.connector.source.abilities.SupportsProjectionPushDown;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;

/**
 * The source {@code replay}: rows of a file of JSON lines, kept in memory and handed out {@code rounds} times.
 *
 * <p>Option {@code shift} names columns and what each round adds to them ({@code dateTime:1000,id:5}), so that the
 * stream continues instead of starting over. Columns of type TIMESTAMP(3) are epoch milliseconds in the file. Every
 * reader hands out every n-th row, in order, of the columns that the query needs. */
public final class Replay implements DynamicTableSourceFactory {
    private static final ConfigOption<String> PATH = ConfigOptions.key("path").stringType().noDefaultValue();
    private static final ConfigOption<Integer> ROUNDS = ConfigOptions.key("rounds").intType().defaultValue(1);
    private static final ConfigOption<String> SHIFT = ConfigOptions.key("shift").stringType().defaultValue("");
    /** When the first row of the job was handed out, in nanoseconds; 0 before. */
    private static final AtomicLong START = new AtomicLong();

    static void forgetStart() {
        START.set(0);
    }

    static long startOr(long otherwise) {
        return START.get() == 0 ? otherwise : START.get();
    }

    static void started() {
        START.compareAndSet(0, System.nanoTime());
    }

    @Override
    public String factoryIdentifier() {
        return "replay";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(PATH);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(ROUNDS, SHIFT);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        Map<String, String> options = context.getCatalogTable().getOptions();
        var type = (RowType) context.getPhysicalRowDataType().getLogicalType();
        String path = options.get(PATH.key());
        Rows.load(path, type);
        Map<String, Long> shifts = new HashMap<>();
        for (String shift : options.getOrDefault(SHIFT.key(), "").split(",")) {
            if (!shift.isEmpty()) {
                String[] parts = shift.split(":");
                shifts.put(parts[0], Long.parseLong(parts[1]));
            }
        }
        int rounds = Integer.parseInt(options.getOrDefault(ROUNDS.key(), "1"));
        List<ReplaySource.Column> columns = new ArrayList<>();
        for (int i = 0; i < type.getFieldCount(); i++) {
            columns.add(new ReplaySource.Column(i, shifts.getOrDefault(type.getFieldNames().get(i), 0L)));
        }
        return new TableSource(path, rounds, columns);
    }

    private static final class TableSource implements ScanTableSource, SupportsProjectionPushDown {
        private final String path;
        private final int rounds;
        private List<ReplaySource.Column> columns;

        TableSource(String path, int rounds, List<ReplaySource.Column> columns) {
            this.path = path;
            this.rounds = rounds;
            this.columns = columns;
        }

        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return SourceProvider.of(new ReplaySource(path, rounds, columns.toArray(ReplaySource.Column[]::new)));
        }

        @Override
        public boolean supportsNestedProjection() {
            return false;
        }

        @Override
        public void applyProjection(int[][] fields, DataType produced) {
            columns = Arrays.stream(fields).map(field -> columns.get(field[0])).toList();
        }

        @Override
        public DynamicTableSource copy() {
            return new TableSource(path, rounds, columns);
        }

        @Override
        public String asSummaryString() {
            return "replay";
        }
    }
}
