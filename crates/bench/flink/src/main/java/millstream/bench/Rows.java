package millstream.bench;

import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.formats.common.TimestampFormat;
import org.apache.flink.formats.json.JsonRowDataDeserializationSchema;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.LogicalTypeRoot;
import org.apache.flink.table.types.logical.RowType;

/** The rows of the files that have been read, by path: read once, before any measurement. */
final class Rows {
    private static final Map<String, GenericRowData[]> LOADED = new ConcurrentHashMap<>();

    private Rows() {}

    static GenericRowData[] of(String path) {
        return LOADED.get(path);
    }

    static void load(String path, RowType type) {
        LOADED.computeIfAbsent(path, p -> read(Path.of(p), type));
    }

    private static GenericRowData[] read(Path path, RowType type) {
        List<RowType.RowField> fields = new ArrayList<>();
        for (RowType.RowField field : type.getFields()) {
            boolean isTime = field.getType().is(LogicalTypeRoot.TIMESTAMP_WITHOUT_TIME_ZONE);
            fields.add(new RowType.RowField(field.getName(), isTime ? new BigIntType() : field.getType()));
        }
        var fileType = new RowType(fields);
        var parser = new JsonRowDataDeserializationSchema(
                fileType, InternalTypeInfo.of(fileType), false, false, TimestampFormat.SQL);
        List<GenericRowData> rows = new ArrayList<>();
        try (BufferedReader lines = Files.newBufferedReader(path)) {
            parser.open(null);
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                var row = (GenericRowData) parser.deserialize(line.getBytes(StandardCharsets.UTF_8));
                for (int i = 0; i < fields.size(); i++) {
                    if (type.getTypeAt(i).is(LogicalTypeRoot.TIMESTAMP_WITHOUT_TIME_ZONE)) {
                        row.setField(i, TimestampData.fromEpochMillis(row.getLong(i)));
                    }
                }
                rows.add(row);
            }
        } catch (Exception error) {
            throw new IllegalStateException("cannot read " + path, error);
        }
        return rows.toArray(GenericRowData[]::new);
    }
}
