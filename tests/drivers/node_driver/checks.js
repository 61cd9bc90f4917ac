// Checks of a CQL server through the Node driver: `node checks.js HOST PORT`. Ends with a status other than 0 at the
// first that fails.
"use strict";

const assert = require("node:assert");
const { createRequire } = require("node:module");

// The driver is installed in the folder where this runs, not beside this file.
const cassandra = createRequire(process.cwd() + "/")("cassandra-driver");
const { types } = cassandra;

const KEYSPACE = "node_driver";
const [host, port] = process.argv.slice(2);

function connect(options) {
  return new cassandra.Client({
    contactPoints: [host],
    localDataCenter: "datacenter1",
    protocolOptions: { port: Number(port), ...options },
    socketOptions: { readTimeout: 20000, connectTimeout: 20000 },
  });
}

async function typesRoundTrip(client) {
  const row = {
    p: 1,
    ascii: "a",
    b: types.Long.MIN_VALUE,
    blob: Buffer.from([0, 255]),
    bool: true,
    date: types.LocalDate.fromString("1969-12-31"),
    dec: types.BigDecimal.fromString("-12.345"),
    d: 0.1,
    dur: new types.Duration(1, 2, 3),
    f: 0.5,
    addr: types.InetAddress.fromString("::1"),
    s: -1,
    t: "é",
    time: types.LocalTime.fromString("03:00:00"),
    ts: new Date(-1),
    tu: types.TimeUuid.now(),
    ti: -128,
    u: types.Uuid.random(),
    v: types.Integer.fromString("-123456789012345678901234567890"),
    l: [1, 2],
    m: { a: 1 },
    st: ["x", "y"],
    tup: new types.Tuple(3, "x"),
  };
  await client.execute(
    "CREATE TABLE types (p int PRIMARY KEY, ascii ascii, b bigint, blob blob, bool boolean, date date, dec decimal, " +
      "d double, dur duration, f float, addr inet, s smallint, t text, time time, ts timestamp, tu timeuuid, " +
      "ti tinyint, u uuid, v varint, l list<int>, m map<text, int>, st frozen<set<text>>, tup tuple<int, text>)",
  );
  const names = Object.keys(row);
  const marks = names.map(() => "?").join(", ");
  await client.execute(`INSERT INTO types (${names.join(", ")}) VALUES (${marks})`, Object.values(row), {
    prepare: true,
  });
  const got = (await client.execute("SELECT * FROM types WHERE p = ?", [1], { prepare: true })).first();
  for (const name of names) {
    const same = row[name] && row[name].equals ? row[name].equals(got[name]) : undefined;
    same === undefined ? assert.deepStrictEqual(got[name], row[name], name) : assert.ok(same, name);
  }
}

async function userTypes(client) {
  await client.execute("CREATE TYPE address (street text, number int)");
  await client.execute("CREATE TABLE people (p int PRIMARY KEY, home address)");
  const home = { street: "Road", number: 5 };
  await client.execute("INSERT INTO people (p, home) VALUES (1, ?)", [home], { prepare: true });
  const got = (await client.execute("SELECT home FROM people")).first().home;
  assert.deepStrictEqual({ ...got }, home);
}

async function pages(client) {
  await client.execute("CREATE TABLE pages (p int, c int, PRIMARY KEY (p, c))");
  const rows = Array.from({ length: 1000 }, (_, n) => [n % 4, n]);
  const query = "INSERT INTO pages (p, c) VALUES (?, ?)";
  await cassandra.concurrent.executeConcurrent(client, query, rows, { prepare: true });
  for (const fetchSize of [7, 100, 5000]) {
    const seen = new Set();
    for await (const row of client.stream("SELECT c FROM pages", [], { prepare: true, autoPage: true, fetchSize })) {
      seen.add(row.c);
    }
    assert.strictEqual(seen.size, 1000);
  }
}

async function batches(client) {
  await client.execute("CREATE TABLE batches (p int PRIMARY KEY, v int)");
  const query = "INSERT INTO batches (p, v) VALUES (?, ?)";
  for (const logged of [true, false]) {
    const batch = [1, 2].map((p) => ({ query, params: [p, p * 10] }));
    await client.batch(batch, { prepare: true, logged });
  }
  const sum = (await client.execute("SELECT sum(v) AS s FROM batches")).first().s;
  assert.strictEqual(sum, 30);
}

async function conditions(client) {
  await client.execute("CREATE TABLE conditions (p int PRIMARY KEY, v int)");
  const query = "INSERT INTO conditions (p, v) VALUES (?, ?) IF NOT EXISTS";
  for (const wanted of [true, false]) {
    const result = await client.execute(query, [1, 1], { prepare: true });
    assert.strictEqual(result.wasApplied(), wanted);
  }
  const result = await client.execute("UPDATE conditions SET v = 2 WHERE p = 1 IF v = 5");
  assert.strictEqual(result.wasApplied(), false);
  assert.strictEqual(result.first().v, 1);
}

async function metadata(client) {
  const table = await client.metadata.getTable(KEYSPACE, "pages");
  assert.deepStrictEqual(table.partitionKeys.map((column) => column.name), ["p"]);
  assert.deepStrictEqual(table.clusteringKeys.map((column) => column.name), ["c"]);
  const type = await client.metadata.getUdt(KEYSPACE, "address");
  assert.deepStrictEqual(type.fields.map((field) => field.name), ["street", "number"]);
}

async function traces(client) {
  const result = await client.execute("SELECT v FROM batches WHERE p = 1", [], { traceQuery: true });
  const trace = await client.metadata.getTrace(result.info.traceId);
  assert.ok(trace.events.some((event) => event.activity.startsWith("Reading node_driver.batches")));
  assert.strictEqual(trace.parameters.query, "SELECT v FROM batches WHERE p = 1");
}

async function errors(client) {
  const code = types.responseErrorCodes;
  await assert.rejects(client.execute("SELECT * FROM no_such_table"), { code: code.invalid });
  await assert.rejects(client.execute("SELEC"), { code: code.syntaxError });
}

async function main() {
  const plain = connect({});
  await plain.connect();
  await plain.execute(`DROP KEYSPACE IF EXISTS ${KEYSPACE}`);
  await plain.execute(
    `CREATE KEYSPACE ${KEYSPACE} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
  );
  await plain.shutdown();
  const client = connect({});
  client.keyspace = KEYSPACE;
  await client.connect();
  for (const part of [typesRoundTrip, userTypes, pages, batches, conditions, metadata, traces, errors]) {
    await part(client);
  }
  await client.shutdown();
  for (const maxVersion of [3, 4]) {
    const older = connect({ maxVersion });
    await older.execute("SELECT release_version FROM system.local");
    await older.shutdown();
  }
  console.log("all checks passed");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
