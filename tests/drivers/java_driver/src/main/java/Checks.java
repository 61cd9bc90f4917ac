import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.data.UdtValue;
import com.datastax.oss.driver.api.core.metadata.schema.TableMetadata;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import com.datastax.oss.driver.api.core.type.DataTypes;
import com.datastax.oss.driver.api.core.type.UserDefinedType;
import com.datastax.oss.driver.api.core.uuid.Uuids;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletionStage;

/** Checks of a CQL server through the Java driver: {@code Checks HOST PORT}. Throws at the first that fails. */
public final class Checks {
  private static final String KEYSPACE = "java_driver";

  private final CqlSession session;

  private Checks(CqlSession session) {
    this.session = session;
  }

  private static void equal(Object got, Object wanted, String what) {
    if (!Objects.equals(got, wanted)) {
      throw new AssertionError(what + ": " + got + ", not " + wanted);
    }
  }

  private static CqlSession connect(String[] arguments, String version, String compression, boolean inKeyspace) {
    var config = DriverConfigLoader.programmaticBuilder()
        .withString(DefaultDriverOption.PROTOCOL_VERSION, version)
        .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, compression)
        .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofSeconds(20))
        .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, Duration.ofSeconds(20))
        .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(20))
        .build();
    var builder = CqlSession.builder()
        .addContactPoint(new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1])))
        .withLocalDatacenter("datacenter1")
        .withConfigLoader(config);
    return (inKeyspace ? builder.withKeyspace(KEYSPACE) : builder).build();
  }

  private void types() throws Exception {
    session.execute("CREATE TABLE types (p int PRIMARY KEY, ascii ascii, b bigint, blob blob, bool boolean, date date, "
        + "dec decimal, d double, dur duration, f float, addr inet, s smallint, t text, time time, ts timestamp, "
        + "tu timeuuid, ti tinyint, u uuid, v varint, l list<int>, m map<text, int>, st frozen<set<text>>)");
    Map<String, Object> row = new LinkedHashMap<>();
    row.put("p", 1);
    row.put("ascii", "a");
    row.put("b", Long.MIN_VALUE);
    row.put("blob", ByteBuffer.wrap(new byte[] {0, -1}));
    row.put("bool", true);
    row.put("date", LocalDate.of(1969, 12, 31));
    row.put("dec", new BigDecimal("-12.345"));
    row.put("d", 0.1);
    row.put("dur", CqlDuration.newInstance(1, 2, 3));
    row.put("f", 0.5f);
    row.put("addr", InetAddress.getByName("::1"));
    row.put("s", (short) -1);
    row.put("t", "é");
    row.put("time", LocalTime.of(3, 0));
    row.put("ts", Instant.ofEpochMilli(-1));
    row.put("tu", Uuids.timeBased());
    row.put("ti", (byte) -128);
    row.put("u", Uuids.random());
    row.put("v", BigInteger.valueOf(-7).shiftLeft(100));
    row.put("l", List.of(1, 2));
    row.put("m", Map.of("a", 1));
    row.put("st", Set.of("x", "y"));
    String marks = String.join(", ", row.keySet().stream().map(name -> ":" + name).toList());
    PreparedStatement insert =
        session.prepare("INSERT INTO types (" + String.join(", ", row.keySet()) + ") VALUES (" + marks + ")");
    session.execute(insert.bind(row.values().toArray()));
    Row got = session.execute("SELECT * FROM types WHERE p = 1").one();
    row.forEach((name, value) -> equal(got.getObject(name), value, name));
  }

  private void userTypes() {
    session.execute("CREATE TYPE address (street text, number int)");
    session.execute("CREATE TABLE people (p int PRIMARY KEY, home address, place tuple<int, text>)");
    UserDefinedType type =
        session.getMetadata().getKeyspace(KEYSPACE).orElseThrow().getUserDefinedType("address").orElseThrow();
    UdtValue home = type.newValue("Road", 5);
    TupleValue place = DataTypes.tupleOf(DataTypes.INT, DataTypes.TEXT).newValue(3, "x");
    session.execute(session.prepare("INSERT INTO people (p, home, place) VALUES (1, ?, ?)").bind(home, place));
    Row got = session.execute("SELECT home, place FROM people").one();
    equal(got.getUdtValue("home").getString("street"), "Road", "a user type");
    equal(got.getTupleValue("place").getInt(0), 3, "a tuple");
  }

  private void pages() {
    session.execute("CREATE TABLE pages (p int, c int, PRIMARY KEY (p, c))");
    PreparedStatement insert = session.prepare("INSERT INTO pages (p, c) VALUES (?, ?)");
    List<CompletionStage<AsyncResultSet>> pending = new ArrayList<>();
    for (int c = 0; c < 1000; c++) {
      pending.add(session.executeAsync(insert.bind(c % 4, c)));
    }
    pending.forEach(one -> one.toCompletableFuture().join());
    for (int size : new int[] {7, 100, 5000}) {
      Set<Integer> seen = new HashSet<>();
      session.execute(SimpleStatement.newInstance("SELECT c FROM pages").setPageSize(size))
          .forEach(row -> seen.add(row.getInt(0)));
      equal(seen.size(), 1000, "rows of all pages");
    }
  }

  private void batches() {
    session.execute("CREATE TABLE batches (p int PRIMARY KEY, v int)");
    PreparedStatement insert = session.prepare("INSERT INTO batches (p, v) VALUES (?, ?)");
    for (BatchType type : List.of(BatchType.LOGGED, BatchType.UNLOGGED)) {
      session.execute(BatchStatement.newInstance(type, insert.bind(1, 10),
          SimpleStatement.newInstance("INSERT INTO batches (p, v) VALUES (2, 20)")));
    }
    equal(session.execute("SELECT sum(v) FROM batches").one().getInt(0), 30, "sum");
  }

  private void conditions() {
    session.execute("CREATE TABLE conditions (p int PRIMARY KEY, v int)");
    var insert = SimpleStatement.newInstance("INSERT INTO conditions (p, v) VALUES (1, 1) IF NOT EXISTS")
        .setSerialConsistencyLevel(ConsistencyLevel.LOCAL_SERIAL);
    equal(session.execute(insert).wasApplied(), true, "IF NOT EXISTS");
    equal(session.execute(insert).wasApplied(), false, "IF NOT EXISTS again");
    ResultSet result = session.execute("UPDATE conditions SET v = 2 WHERE p = 1 IF v = 5");
    equal(result.wasApplied(), false, "IF v = 5");
    equal(result.one().getInt("v"), 1, "the value that was not 5");
  }

  private void metadata() {
    TableMetadata table =
        session.getMetadata().getKeyspace(KEYSPACE).orElseThrow().getTable("pages").orElseThrow();
    equal(table.getPartitionKey().get(0).getName().asInternal(), "p", "the partition key");
    equal(table.getClusteringColumns().size(), 1, "clustering columns");
    var replicas = session.getMetadata().getTokenMap().orElseThrow()
        .getReplicas(KEYSPACE, ByteBuffer.wrap(new byte[] {0, 0, 0, 1}));
    equal(replicas.isEmpty(), false, "replicas");
  }

  private void traces() {
    var query = SimpleStatement.newInstance("SELECT v FROM batches WHERE p = 1").setTracing(true);
    var trace = session.execute(query).getExecutionInfo().getQueryTrace();
    boolean told = trace.getEvents().stream().anyMatch(event -> event.getActivity().startsWith("Reading java_driver."));
    equal(told, true, "a trace");
    equal(trace.getParameters().get("query"), query.getQuery(), "the query of a trace");
  }

  private void errors() {
    try {
      session.execute("SELECT * FROM no_such_table");
      throw new AssertionError("an unknown table");
    } catch (InvalidQueryException expected) {
      equal(expected.getMessage().contains("no_such_table"), true, "the table's name");
    }
    try {
      session.execute("SELEC");
      throw new AssertionError("a syntax error");
    } catch (SyntaxError expected) {
      equal(expected.getMessage().isEmpty(), false, "a message");
    }
  }

  public static void main(String[] arguments) throws Exception {
    try (CqlSession session = connect(arguments, "V4", "none", false)) {
      session.execute("DROP KEYSPACE IF EXISTS " + KEYSPACE);
      session.execute("CREATE KEYSPACE " + KEYSPACE
          + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    }
    try (CqlSession session = connect(arguments, "V5", "lz4", true)) {
      Checks checks = new Checks(session);
      checks.types();
      checks.userTypes();
      checks.pages();
      checks.batches();
      checks.conditions();
      checks.metadata();
      checks.traces();
      checks.errors();
    }
    for (String version : List.of("V3", "V4")) {
      try (CqlSession session = connect(arguments, version, "none", true)) {
        equal(session.execute("SELECT count(*) FROM pages").one().getLong(0), 1000L, version);
      }
    }
    System.out.println("all checks passed");
  }
}
