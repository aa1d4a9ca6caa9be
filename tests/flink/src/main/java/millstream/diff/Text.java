package millstream.diff;

import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.MapType;
import org.apache.flink.table.types.logical.MultisetType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.utils.LogicalTypeChecks;
import org.apache.flink.types.Row;

/**
 * Values as fields of CSV, in the form that Millstream shows them in: NULL is nothing and an empty string {@code ""};
 * timestamps have the digits of their precision, those with a zone are in UTC with a {@code Z}; times of day have the
 * fraction that they have; bytes are {@code x'cafe'}; rows, arrays and maps are as casts to strings, the entries of a map in
 * the order of their text.
 */
final class Text {
    private static final DateTimeFormatter MOMENT = DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss");

    private Text() {}

    static String line(Row row, List<LogicalType> types) {
        var fields = new ArrayList<String>();
        for (int i = 0; i < types.size(); i++) {
            fields.add(field(row.getField(i), types.get(i)));
        }
        return String.join(",", fields);
    }

    static String field(Object value, LogicalType type) {
        return value == null ? "" : quoted(text(value, type));
    }

    static String quoted(String text) {
        boolean isPlain = !text.isEmpty() && text.chars().noneMatch(c -> c == ',' || c == '"' || c == '\n' || c == '\r');
        return isPlain ? text : "\"" + text.replace("\"", "\"\"") + "\"";
    }

    private static String text(Object value, LogicalType type) {
        if (value == null) {
            return "NULL";
        }
        if (value instanceof BigDecimal decimal) {
            return decimal.toPlainString();
        }
        if (value instanceof LocalDateTime time) {
            return moment(time, LogicalTypeChecks.getPrecision(type));
        }
        if (value instanceof Instant time) {
            return moment(LocalDateTime.ofInstant(time, ZoneOffset.UTC), LogicalTypeChecks.getPrecision(type)) + "Z";
        }
        if (value instanceof Boolean truth) {
            return truth ? "TRUE" : "FALSE";
        }
        if (value instanceof LocalTime time) {
            return time.truncatedTo(ChronoUnit.SECONDS).format(DateTimeFormatter.ISO_LOCAL_TIME) + fraction(time.getNano());
        }
        if (value instanceof byte[] bytes) {
            return "x'" + HexFormat.of().formatHex(bytes) + "'";
        }
        var parts = new ArrayList<String>();
        if (value instanceof Row row) {
            for (int i = 0; i < row.getArity(); i++) {
                parts.add(text(row.getField(i), ((RowType) type).getTypeAt(i)));
            }
            return "(" + String.join(", ", parts) + ")";
        }
        if (value instanceof Map<?, ?> map) {
            LogicalType keys = type instanceof MapType m ? m.getKeyType() : ((MultisetType) type).getElementType();
            LogicalType values = type instanceof MapType m ? m.getValueType() : null;
            map.forEach((k, v) -> parts.add(text(k, keys) + "=" + (values == null ? v : text(v, values))));
            Collections.sort(parts);
            return "{" + String.join(", ", parts) + "}";
        }
        if (value.getClass().isArray()) {
            for (int i = 0; i < Array.getLength(value); i++) {
                parts.add(text(Array.get(value, i), ((ArrayType) type).getElementType()));
            }
            return "[" + String.join(", ", parts) + "]";
        }
        return value.toString();
    }

    private static String moment(LocalDateTime time, int digits) {
        String nanos = String.format("%09d", time.getNano());
        return time.format(MOMENT) + (digits == 0 ? "" : "." + nanos.substring(0, digits));
    }

    private static String fraction(int nanos) {
        return nanos == 0 ? "" : "." + String.format("%09d", nanos).replaceFirst("0+$", "");
    }
}
