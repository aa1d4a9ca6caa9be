package millstream.bench;

import java.util.Set;
import java.util.concurrent.atomic.LongAdder;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.SinkV2Provider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.types.logical.DecimalType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.LogicalTypeRoot;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.RowKind;

/**
 * The sink {@code checksum}: counts rows and adds up a hash of each, as docs/benchmarks.md describes it, so that
 * results are compared in any order without being kept. Rows that are taken back are taken off.
 */
public final class Checksum implements DynamicTableSinkFactory {
    private static final LongAdder ROWS = new LongAdder();
    private static final LongAdder SUM = new LongAdder();
    /** Stands for NULL. */
    private static final long NULL = Long.MIN_VALUE;

    static void reset() {
        ROWS.reset();
        SUM.reset();
    }

    /** Number of rows and sum of their hashes. */
    static String text() {
        return ROWS.sum() + " " + Long.toUnsignedString(SUM.sum());
    }

    @Override
    public String factoryIdentifier() {
        return "checksum";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DynamicTableSink createDynamicTableSink(Context context) {
        return new TableSink((RowType) context.getPhysicalRowDataType().getLogicalType());
    }

    private record TableSink(RowType type) implements DynamicTableSink {
        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return requested;
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            return SinkV2Provider.of(new RowSink(type));
        }

        @Override
        public DynamicTableSink copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "checksum";
        }
    }

    private record RowSink(RowType type) implements Sink<RowData> {
        @Override
        public SinkWriter<RowData> createWriter(WriterInitContext context) {
            return new Writer(type);
        }
    }

    private record Writer(RowType type) implements SinkWriter<RowData> {
        @Override
        public void write(RowData row, Context context) {
            long hash = 0;
            for (int i = 0; i < type.getFieldCount(); i++) {
                long value = row.isNullAt(i) ? NULL : value(row, i, type.getTypeAt(i));
                hash = Long.rotateLeft((hash ^ value) * 0x9E37_79B9_7F4A_7C15L, 29);
            }
            boolean comes = row.getRowKind() == RowKind.INSERT || row.getRowKind() == RowKind.UPDATE_AFTER;
            ROWS.add(comes ? 1 : -1);
            SUM.add(comes ? hash : -hash);
        }

        @Override
        public void flush(boolean endOfInput) {}

        @Override
        public void close() {}
    }

    /** A number as it is, a time in milliseconds, a decimal without its point, a text's hash (FNV-1a). */
    private static long value(RowData row, int i, LogicalType type) {
        LogicalTypeRoot root = type.getTypeRoot();
        switch (root) {
            case BIGINT:
                return row.getLong(i);
            case INTEGER:
                return row.getInt(i);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                return row.getTimestamp(i, 3).getMillisecond();
            case DECIMAL:
                var decimal = (DecimalType) type;
                return row.getDecimal(i, decimal.getPrecision(), decimal.getScale()).toBigDecimal().unscaledValue().longValue();
            case CHAR:
            case VARCHAR:
                long hash = 0xCBF2_9CE4_8422_2325L;
                for (byte b : row.getString(i).toBytes()) {
                    hash = (hash ^ (b & 0xFF)) * 0x0000_0100_0000_01B3L;
                }
                return hash;
            default:
                throw new IllegalArgumentException("no checksum of " + type);
        }
    }
}
