package millstream.bench;

import java.io.Serializable;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;

/** Hands out rows that are in memory. Its readers know their share by their number, so there are no splits. */
final class ReplaySource implements Source<RowData, ReplaySource.NoSplit, Void> {
    /** A column of the file and what each round adds to it. */
    record Column(int index, long shift) implements Serializable {}

    /** There is none. */
    static final class NoSplit implements SourceSplit {
        @Override
        public String splitId() {
            return "";
        }
    }

    private final String path;
    private final int rounds;
    private final Column[] columns;

    ReplaySource(String path, int rounds, Column[] columns) {
        this.path = path;
        this.rounds = rounds;
        this.columns = columns;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.BOUNDED;
    }

    @Override
    public SourceReader<RowData, NoSplit> createReader(SourceReaderContext context) {
        return new Reader(Rows.of(path), rounds, columns, context.getIndexOfSubtask(), context.currentParallelism());
    }

    @Override
    public SplitEnumerator<NoSplit, Void> createEnumerator(SplitEnumeratorContext<NoSplit> context) {
        return new NoSplits();
    }

    @Override
    public SplitEnumerator<NoSplit, Void> restoreEnumerator(SplitEnumeratorContext<NoSplit> context, Void state) {
        return new NoSplits();
    }

    @Override
    public SimpleVersionedSerializer<NoSplit> getSplitSerializer() {
        return new Empty<>();
    }

    @Override
    public SimpleVersionedSerializer<Void> getEnumeratorCheckpointSerializer() {
        return new Empty<>();
    }

    private static final class Reader implements SourceReader<RowData, NoSplit> {
        /** Rows that one call hands out. */
        private static final int BATCH = 256;

        private final GenericRowData[] rows;
        private final int rounds;
        private final Column[] columns;
        private final int first;
        private final int step;
        private int round;
        private int next;

        Reader(GenericRowData[] rows, int rounds, Column[] columns, int first, int step) {
            this.rows = rows;
            this.rounds = rounds;
            this.columns = columns;
            this.first = first;
            this.step = step;
            this.next = first;
        }

        @Override
        public void start() {
            Replay.started();
        }

        @Override
        public InputStatus pollNext(ReaderOutput<RowData> output) {
            for (int n = 0; n < BATCH; n++) {
                while (next >= rows.length) {
                    next = first;
                    round++;
                    if (round >= rounds || first >= rows.length) {
                        return InputStatus.END_OF_INPUT;
                    }
                }
                output.collect(row(rows[next]));
                next += step;
            }
            return InputStatus.MORE_AVAILABLE;
        }

        private GenericRowData row(GenericRowData base) {
            var row = new GenericRowData(columns.length);
            for (int i = 0; i < columns.length; i++) {
                Object value = base.getField(columns[i].index);
                long shift = columns[i].shift * round;
                if (shift != 0 && value instanceof TimestampData time) {
                    value = TimestampData.fromEpochMillis(time.getMillisecond() + shift);
                } else if (shift != 0 && value instanceof Long number) {
                    value = number + shift;
                }
                row.setField(i, value);
            }
            return row;
        }

        @Override
        public List<NoSplit> snapshotState(long checkpoint) {
            return List.of();
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return CompletableFuture.completedFuture(null);
        }

        @Override
        public void addSplits(List<NoSplit> splits) {}

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() {}
    }

    private static final class NoSplits implements SplitEnumerator<NoSplit, Void> {
        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<NoSplit> splits, int subtask) {}

        @Override
        public void addReader(int subtask) {}

        @Override
        public Void snapshotState(long checkpoint) {
            return null;
        }

        @Override
        public void close() {}
    }

    /** Writes nothing: there is no state. */
    private static final class Empty<T> implements SimpleVersionedSerializer<T> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(T value) {
            return new byte[0];
        }

        @Override
        public T deserialize(int version, byte[] bytes) {
            return null;
        }
    }
}
