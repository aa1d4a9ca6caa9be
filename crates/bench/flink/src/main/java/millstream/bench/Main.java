package millstream.bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * Runs SQL on Flink in this process, once for each line of standard input, and answers with a line of JSON.
 *
 * <p>A request is {@code {"settings": {name: value…}, "setup": [SQL…], "query": SQL, "check": bool}}. The rows of a request with {@code check} go
 * into the sink {@code checksum}, and the answer has their checksum (docs/benchmarks.md); those of others go into a
 * black hole. The answer's {@code seconds} are those from the first row that a source hands out (for files, from the
 * submission of the job) to the end of the job.
 */
public final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        int threads = Integer.parseInt(arguments[0]);
        System.out.println("ready");
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(answer(JSON.readTree(line), threads));
        }
        // Threads of Flink's cluster may still be there.
        System.exit(0);
    }

    /** Runs a request: its answer, or one with the key {@code error}. */
    private static String answer(JsonNode request, int threads) throws Exception {
        var answer = JSON.createObjectNode();
        try {
            if (request.get("check").asBoolean()) {
                Checksum.reset();
                answer.put("seconds", run(request, threads, "checksum")).put("checksum", Checksum.text());
            } else {
                answer.put("seconds", run(request, threads, "blackhole"));
            }
        } catch (Exception error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            answer.put("error", String.valueOf(cause.getMessage()));
        }
        return JSON.writeValueAsString(answer);
    }

    /** Seconds of the query into a sink of this connector. */
    private static double run(JsonNode request, int threads, String sink) throws Exception {
        var configuration = new Configuration();
        configuration.setString("pipeline.object-reuse", "true");
        configuration.setString("taskmanager.numberOfTaskSlots", Integer.toString(threads));
        var environment = StreamExecutionEnvironment.createLocalEnvironment(threads, configuration);
        var tables = StreamTableEnvironment.create(environment);
        tables.getConfig().setLocalTimeZone(java.time.ZoneOffset.UTC);
        for (var setting : request.get("settings").properties()) {
            tables.getConfig().set(setting.getKey(), setting.getValue().asText());
        }
        tables.createTemporarySystemFunction("count_char", CountChar.class);
        for (JsonNode statement : request.get("setup")) {
            tables.executeSql(statement.asText());
        }
        Table query = tables.sqlQuery(request.get("query").asText());
        Replay.forgetStart();
        long submitted = System.nanoTime();
        TableResult result = query.insertInto(TableDescriptor.forConnector(sink).build()).execute();
        result.await();
        long end = System.nanoTime();
        return (end - Replay.startOr(submitted)) / 1e9;
    }
}
