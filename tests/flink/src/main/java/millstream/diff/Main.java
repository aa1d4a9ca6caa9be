package millstream.diff;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/**
 * Runs SQL on Flink and writes what it answers: {@code Main DATA OUT FILE…}.
 *
 * <p>A {@code FILE.sql} is a script that ends with one query, or with one INSERT, which is waited for. The tables of {@code ddl.sql} beside it are there,
 * <code>${DATA}</code> is the folder DATA, and a line {@code -- zone: Europe/Berlin} sets the session's time zone, which
 * is UTC otherwise. Its rows go to {@code OUT/FILE.csv}: a line of column names, then the rows sorted as text, those of
 * an updating query as they are in the end. A {@code FILE.txt} has an expression on each line; {@code OUT/FILE.csv} gets
 * the expression, its type and its value as text for each. What Flink refuses is written to {@code OUT/FILE.error}, or is
 * the value {@code ERROR} of an expression, with the reason in the place of the type.
 *
 * <p>Watermarks follow every row ({@code pipeline.auto-watermark-interval} is 0), and there is one task of everything.
 */
public final class Main {
    private static final Pattern SET = Pattern.compile("(?is)SET\\s+'([^']+)'\\s*=\\s*'([^']*)'");
    private static final Pattern ZONE = Pattern.compile("(?m)^-- zone: (\\S+)\\s*$");

    public static void main(String[] arguments) throws Exception {
        Path data = Path.of(arguments[0]).toAbsolutePath();
        Path out = Path.of(arguments[1]);
        Files.createDirectories(out);
        for (String name : Arrays.asList(arguments).subList(2, arguments.length)) {
            Path file = Path.of(name);
            String stem = file.getFileName().toString().replaceFirst("\\.[a-z]+$", "");
            Path answer = out.resolve(stem + ".csv");
            Path refusal = out.resolve(stem + ".error");
            Files.deleteIfExists(answer);
            Files.deleteIfExists(refusal);
            try {
                List<String> lines = name.endsWith(".txt") ? expressions(file) : query(file, data);
                Files.write(answer, lines);
                System.out.println(stem + ": " + (lines.size() - 1) + " rows");
            } catch (Exception error) {
                Files.writeString(refusal, reason(error) + "\n");
                System.out.println(stem + ": refused: " + reason(error));
            }
        }
        // Threads of Flink's cluster may still be there.
        System.exit(0);
    }

    private static StreamTableEnvironment environment(String zone) {
        var configuration = new Configuration();
        configuration.setString("pipeline.auto-watermark-interval", "0");
        configuration.setString("taskmanager.numberOfTaskSlots", "1");
        configuration.setString("table.exec.resource.default-parallelism", "1");
        configuration.setString("table.local-time-zone", zone);
        var environment = StreamExecutionEnvironment.createLocalEnvironment(1, configuration);
        environment.setParallelism(1);
        var tables = StreamTableEnvironment.create(environment);
        configuration.toMap().forEach((key, value) -> tables.getConfig().getConfiguration().setString(key, value));
        return tables;
    }

    /** The answer to a script, as lines. */
    private static List<String> query(Path file, Path data) throws Exception {
        String script = Files.readString(file);
        var zone = ZONE.matcher(script);
        var tables = environment(zone.find() ? zone.group(1) : "UTC");
        Path ddl = file.resolveSibling("ddl.sql");
        List<String> statements = new ArrayList<>(Files.exists(ddl) ? statements(Files.readString(ddl)) : List.of());
        statements.addAll(statements(script));
        TableResult result = null;
        for (String statement : statements) {
            var set = SET.matcher(statement);
            if (set.matches() && set.group(1).equals("execution.runtime-mode")) {
                // Millstream needs batch mode where results are updated; here they are, and those in the end are the same.
                continue;
            } else if (set.matches()) {
                tables.getConfig().getConfiguration().setString(set.group(1), set.group(2));
            } else {
                result = tables.executeSql(statement.replace("${DATA}", data.toString()));
                if (statement.startsWith("INSERT")) {
                    // The cluster of a job ends with it, so there are no rows to be collected.
                    result.getJobClient().orElseThrow().getJobExecutionResult().get();
                    return List.of("rows");
                }
            }
        }
        if (result == null) {
            throw new IOException("no statement in " + file);
        }
        List<LogicalType> types = new ArrayList<>();
        result.getResolvedSchema().getColumnDataTypes().forEach(type -> types.add(type.getLogicalType()));
        var rows = new TreeMap<String, Integer>();
        try (var iterator = result.collect()) {
            while (iterator.hasNext()) {
                Row row = iterator.next();
                boolean gone = row.getKind() == RowKind.DELETE || row.getKind() == RowKind.UPDATE_BEFORE;
                rows.merge(Text.line(row, types), gone ? -1 : 1, Integer::sum);
            }
        }
        List<String> lines = new ArrayList<>();
        lines.add(String.join(",", result.getResolvedSchema().getColumnNames()));
        rows.forEach((line, count) -> {
            for (int i = 0; i < count; i++) {
                lines.add(line);
            }
        });
        return lines;
    }

    /** Type and value of the expressions of a file, as lines. */
    private static List<String> expressions(Path file) throws IOException {
        String text = Files.readString(file);
        var zone = ZONE.matcher(text);
        var tables = environment(zone.find() ? zone.group(1) : "UTC");
        List<String> lines = new ArrayList<>();
        lines.add("expression,type,value");
        for (String expression : text.lines().toList()) {
            if (expression.isBlank() || expression.startsWith("--")) {
                continue;
            }
            String type;
            String value;
            try {
                var result = tables.executeSql("SELECT " + expression + " AS v");
                var logical = result.getResolvedSchema().getColumnDataTypes().get(0).getLogicalType();
                type = logical.asSummaryString().replace(" NOT NULL", "");
                try (var rows = result.collect()) {
                    value = Text.field(rows.next().getField(0), logical);
                }
            } catch (Exception error) {
                type = reason(error);
                value = "ERROR";
            }
            lines.add(Text.quoted(expression) + "," + Text.quoted(type) + "," + value);
        }
        return lines;
    }

    /** Statements end with a semicolon at the end of a line. */
    private static List<String> statements(String script) {
        String code = script.replaceAll("(?m)^--.*$", "");
        List<String> statements = new ArrayList<>();
        for (String statement : code.split(";[ \\t]*(\\r?\\n|$)")) {
            if (!statement.isBlank()) {
                statements.add(statement.strip());
            }
        }
        return statements;
    }

    private static String reason(Throwable error) {
        while (error.getCause() != null) {
            error = error.getCause();
        }
        return String.valueOf(error.getMessage()).lines().findFirst().orElse(error.getClass().getSimpleName());
    }
}
