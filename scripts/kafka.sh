#!/usr/bin/env bash
# Runs one Apache Kafka broker (KRaft) on 127.0.0.1, for tests: Java 17 and Maven are needed, scripts/setup.sh installs them.
#   kafka.sh start DIR PORT [PID]   starts the broker, which keeps its data in DIR across starts; it is stopped when the
#                                   process PID has ended. PORT + 1 is used as well. With KAFKA_LISTENERS=all it also
#                                   listens on PORT + 2 (SASL_SSL: PLAIN and SCRAM, user tester), PORT + 3 (SSL, with a
#                                   certificate of the client), and PORT + 4, which sends clients to PORT + 5 for all that
#                                   follows, where a test puts something in between. Certificates are in DIR/tls.
#   kafka.sh stop DIR               stops it
#   kafka.sh kill DIR               ends it at once, as a crash would
#   kafka.sh topic PORT NAME N      creates a topic of N partitions
#   kafka.sh jars                   only fetches the jars: 56 MB from Maven Central, once, into ~/.cache/millstream/kafka
set -euo pipefail

version=${KAFKA_VERSION:-3.9.2}
password=only-for-tests
cache=${XDG_CACHE_HOME:-$HOME/.cache}/millstream/kafka/$version

jars() {
    [ -e "$cache/complete" ] && return
    for tool in java mvn; do
        command -v "$tool" >/dev/null || { echo "error: $tool is missing; run scripts/setup.sh --kafka" >&2; exit 1; }
    done
    mkdir -p "$cache"
    cat >"$cache/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$version</version></dependency>
  </dependencies></project>
POM
    mvn -q -B -f "$cache/pom.xml" dependency:copy-dependencies -DoutputDirectory="$cache/libs" -Dmdep.includeScope=runtime >&2
    touch "$cache/complete"
}

# An authority, certificates for the broker and a client, and an authority that nobody has signed with.
certificates() {
    command -v openssl >/dev/null || { echo "error: openssl is missing; run scripts/setup.sh --kafka" >&2; exit 1; }
    mkdir -p "$dir/tls"
    cd "$dir/tls"
    local key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650)
    for authority in ca other-ca; do
        openssl req -x509 "${key[@]}" -keyout $authority.key -out $authority.pem -subj "/CN=$authority of tests"
    done
    for name in broker client; do
        openssl req "${key[@]}" -keyout $name.key -out $name.csr -subj "/CN=$name"
        openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -out $name.pem \
            -extfile <(echo "subjectAltName=DNS:localhost,IP:127.0.0.1")
    done
    cat broker.key broker.pem >broker-keystore.pem
    cd - >/dev/null
}

settings() {
    cat >"$dir/server.properties" <<SERVER
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))$more_listeners
advertised.listeners=PLAINTEXT://127.0.0.1:$port$more_addresses
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,BETWEEN:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL
log.dirs=$dir/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
default.replication.factor=1
group.initial.rebalance.delay.ms=0
# Tests write records of years ago; thirty seconds after its start the broker would delete those older than a week.
log.retention.ms=-1
SERVER
    [ -z "$more_listeners" ] || cat >>"$dir/server.properties" <<SERVER
ssl.keystore.type=PEM
ssl.keystore.location=$dir/tls/broker-keystore.pem
ssl.truststore.type=PEM
ssl.truststore.location=$dir/tls/ca.pem
listener.name.ssl.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_tester="$password";
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
SERVER
    cat >"$dir/log4j.properties" <<LOG
log4j.rootLogger=INFO, F
log4j.appender.F=org.apache.log4j.FileAppender
log4j.appender.F.File=$dir/server.log
log4j.appender.F.layout=org.apache.log4j.PatternLayout
log4j.appender.F.layout.ConversionPattern=[%d] %p %m (%c)%n
LOG
}

is_running() { [ -e "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; }

# Waits until the broker's process is gone.
gone() {
    for _ in $(seq 300); do
        is_running || { rm -f "$dir/pid"; return; }
        sleep 0.05
    done
    kill -9 "$(cat "$dir/pid")" 2>/dev/null || true
    rm -f "$dir/pid"
}

start() {
    is_running && return
    mkdir -p "$dir/data"
    more_listeners= more_addresses=
    if [ "${KAFKA_LISTENERS:-}" = all ]; then
        more_addresses=",SASL_SSL://127.0.0.1:$((port + 2)),SSL://127.0.0.1:$((port + 3)),BETWEEN://127.0.0.1:"
        more_listeners=$more_addresses$((port + 4)) more_addresses=$more_addresses$((port + 5))
        [ -e "$dir/tls/broker-keystore.pem" ] || certificates >"$dir/tls.log" 2>&1 ||
            { cat "$dir/tls.log" >&2; exit 1; }
    fi
    settings
    : >"$dir/server.log"
    java=(java -Xmx512m -Xms256m -XX:TieredStopAtLevel=1 -Xshare:auto "-Dlog4j.configuration=file:$dir/log4j.properties" -cp "$cache/libs/*")
    [ -e "$dir/data/meta.properties" ] ||
        "${java[@]}" kafka.tools.StorageTool format -t MkU3OEVBNTcwNTJENDM2Qg -c "$dir/server.properties" \
            --add-scram "SCRAM-SHA-256=[name=tester,password=$password]" \
            --add-scram "SCRAM-SHA-512=[name=tester,password=$password]" >"$dir/format.log" 2>&1
    setsid "${java[@]}" kafka.Kafka "$dir/server.properties" >"$dir/out.log" 2>&1 </dev/null &
    echo $! >"$dir/pid"
    local pid=$!
    if [ -n "$owner" ]; then
        # Whoever wanted the broker may end without a word.
        setsid bash -c "while kill -0 $owner && kill -0 $pid; do sleep 1; done; kill -9 $pid" >/dev/null 2>&1 </dev/null &
    fi
    for _ in $(seq 1200); do
        grep -q 'Kafka Server started' "$dir/server.log" && { echo "kafka $version on 127.0.0.1:$port, process $pid"; return; }
        is_running || { tail -n 20 "$dir/out.log" "$dir/server.log" >&2; exit 1; }
        sleep 0.05
    done
    echo "error: kafka has not started in a minute; see $dir/server.log" >&2
    exit 1
}

command=${1:-}
case $command in
    jars) jars; exit ;;
    topic)
        java -cp "$cache/libs/*" org.apache.kafka.tools.TopicCommand --bootstrap-server "127.0.0.1:$2" --create --topic "$3" \
            --partitions "$4" 2>&1 | grep -v '^log4j:WARN'
        exit
        ;;
    start | stop | kill) ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
mkdir -p "${2:?a directory is needed}"
dir=$(cd "$2" && pwd)
case $command in
    start)
        port=${3:?a port is needed}
        owner=${4:-}
        jars
        start
        ;;
    stop) ! is_running || { kill "$(cat "$dir/pid")"; gone; } ;;
    kill) ! is_running || { kill -9 "$(cat "$dir/pid")"; gone; } ;;
esac
