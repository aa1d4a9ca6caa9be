#!/usr/bin/env bash
# Runs one Apache Kafka broker (KRaft) on 127.0.0.1, for tests: Java 17 and Maven are needed, scripts/setup.sh installs them.
#   kafka.sh start DIR PORT [PID]   starts the broker, which keeps its data in DIR across starts; it is stopped when the
#                                   process PID has ended. PORT + 1 is used as well.
#   kafka.sh stop DIR               stops it
#   kafka.sh kill DIR               ends it at once, as a crash would
#   kafka.sh jars                   only fetches the jars: 56 MB from Maven Central, once, into ~/.cache/millstream/kafka
set -euo pipefail

version=${KAFKA_VERSION:-3.9.2}
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

settings() {
    cat >"$dir/server.properties" <<SERVER
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
default.replication.factor=1
group.initial.rebalance.delay.ms=0
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
    settings
    : >"$dir/server.log"
    java=(java -Xmx512m -Xms256m -XX:TieredStopAtLevel=1 -Xshare:auto "-Dlog4j.configuration=file:$dir/log4j.properties" -cp "$cache/libs/*")
    [ -e "$dir/data/meta.properties" ] ||
        "${java[@]}" kafka.tools.StorageTool format -t MkU3OEVBNTcwNTJENDM2Qg -c "$dir/server.properties" >"$dir/format.log" 2>&1
    setsid "${java[@]}" kafka.Kafka "$dir/server.properties" >"$dir/out.log" 2>&1 </dev/null &
    echo $! >"$dir/pid"
    local pid=$!
    if [ -n "$owner" ]; then
        # Whoever wanted the broker may end without a word.
        setsid bash -c "while kill -0 $owner && kill -0 $pid; do sleep 1; done; kill -9 $pid" >/dev/null 2>&1 </dev/null &
    fi
    for _ in $(seq 1200); do
        grep -q 'Kafka Server started' "$dir/server.log" && { echo "kafka $version on 127.0.0.1:$port, process $pid"; return; }
        is_running || { tail -20 "$dir/out.log" "$dir/server.log" >&2; exit 1; }
        sleep 0.05
    done
    echo "error: kafka has not started in a minute; see $dir/server.log" >&2
    exit 1
}

command=${1:-}
case $command in
    jars) jars; exit ;;
    start | stop | kill) ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
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
