// Checks of a CQL server through gocql: `checks HOST PORT`. Ends with a status other than 0 at the first that fails.
package main

import (
	"bytes"
	"fmt"
	"math/big"
	"net"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"gopkg.in/inf.v0"
)

const keyspace = "go_driver"

func check(err error, what string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func equal(got, wanted any, what string) {
	if !reflect.DeepEqual(got, wanted) {
		fmt.Fprintf(os.Stderr, "%s: %#v, not %#v\n", what, got, wanted)
		os.Exit(1)
	}
}

func cluster(version int) *gocql.ClusterConfig {
	port, err := strconv.Atoi(os.Args[2])
	check(err, "PORT")
	cluster := gocql.NewCluster(os.Args[1])
	cluster.Port = port
	cluster.ProtoVersion = version
	cluster.Timeout = 20 * time.Second
	cluster.ConnectTimeout = 20 * time.Second
	cluster.Metadata.CacheMode = gocql.Full
	return cluster
}

func connect(version int) *gocql.Session {
	config := cluster(version)
	config.Keyspace = keyspace
	session, err := config.CreateSession()
	check(err, fmt.Sprintf("connect with protocol version %d", version))
	return session
}

func execute(session *gocql.Session, statement string, values ...any) {
	check(session.Query(statement, values...).Exec(), statement)
}

func types(session *gocql.Session) {
	execute(session, `CREATE TABLE types (p int PRIMARY KEY, ascii ascii, b bigint, blob blob, bool boolean, date date,
		dec decimal, d double, dur duration, f float, addr inet, s smallint, t text, time time, ts timestamp,
		tu timeuuid, ti tinyint, u uuid, v varint, l list<int>, m map<text, int>, st frozen<set<text>>)`)
	row := map[string]any{
		"p": 1, "ascii": "a", "b": int64(-1 << 63), "blob": []byte{0, 255}, "bool": true,
		"date": time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC), "dec": inf.NewDec(-12345, 3), "d": 0.1,
		"dur": gocql.Duration{Months: 1, Days: 2, Nanoseconds: 3}, "f": float32(0.5), "addr": net.ParseIP("::1"),
		"s": int16(-1), "t": "é", "time": 3 * time.Hour, "ts": time.UnixMilli(-1).UTC(), "tu": gocql.TimeUUID(),
		"ti": int8(-128), "u": gocql.MustRandomUUID(), "v": new(big.Int).Lsh(big.NewInt(-7), 100),
		"l": []int{1, 2}, "m": map[string]int{"a": 1}, "st": []string{"x", "y"},
	}
	names, marks, values := []string{}, []string{}, []any{}
	for name, value := range row {
		names, marks, values = append(names, name), append(marks, "?"), append(values, value)
	}
	insert := fmt.Sprintf("INSERT INTO types (%s) VALUES (%s)", strings.Join(names, ", "), strings.Join(marks, ", "))
	execute(session, insert, values...)
	got := map[string]any{}
	check(session.Query("SELECT * FROM types WHERE p = ?", 1).MapScan(got), "SELECT")
	equal(got["dec"].(*inf.Dec).Cmp(row["dec"].(*inf.Dec)), 0, "decimal")
	equal(got["v"].(*big.Int).Cmp(row["v"].(*big.Int)), 0, "varint")
	equal(got["addr"].(net.IP).Equal(row["addr"].(net.IP)), true, "inet")
	for _, name := range []string{"ascii", "b", "blob", "bool", "date", "d", "dur", "f", "s", "t", "time", "ts", "tu", "ti",
		"u", "l", "m", "st"} {
		equal(got[name], row[name], name)
	}
}

type address struct {
	Street string `cql:"street"`
	Number int    `cql:"number"`
}

func userTypes(session *gocql.Session) {
	execute(session, "CREATE TYPE address (street text, number int)")
	execute(session, "CREATE TABLE people (p int PRIMARY KEY, home address, place tuple<int, text>)")
	home := address{"Road", 5}
	execute(session, "INSERT INTO people (p, home, place) VALUES (1, ?, (?, ?))", &home, 3, "x")
	var got address
	var first int
	var second string
	check(session.Query("SELECT home, place FROM people WHERE p = 1").Scan(&got, &first, &second), "a user type")
	equal(got, home, "a user type")
	equal(first, 3, "a tuple")
}

func pages(session *gocql.Session) {
	execute(session, "CREATE TABLE pages (p int, c int, PRIMARY KEY (p, c))")
	var all sync.WaitGroup
	for n := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for c := range 125 {
				execute(session, "INSERT INTO pages (p, c) VALUES (?, ?)", n%4, n*125+c)
			}
		}()
	}
	all.Wait()
	for _, size := range []int{7, 100, 5000} {
		iter := session.Query("SELECT c FROM pages").PageSize(size).Iter()
		var c int
		seen := []int{}
		for iter.Scan(&c) {
			seen = append(seen, c)
		}
		check(iter.Close(), "paging")
		sort.Ints(seen)
		equal(len(seen), 1000, "rows of all pages")
		equal(seen[999], 999, "the last row")
	}
}

func batches(session *gocql.Session) {
	execute(session, "CREATE TABLE batches (p int PRIMARY KEY, v int)")
	for _, kind := range []gocql.BatchType{gocql.LoggedBatch, gocql.UnloggedBatch} {
		batch := session.Batch(kind)
		batch.Query("INSERT INTO batches (p, v) VALUES (?, ?)", 1, 10)
		batch.Query("INSERT INTO batches (p, v) VALUES (2, 20)")
		check(batch.Exec(), "a batch")
	}
	var sum int
	check(session.Query("SELECT sum(v) FROM batches").Scan(&sum), "sum")
	equal(sum, 30, "sum")
}

func conditions(session *gocql.Session) {
	execute(session, "CREATE TABLE conditions (p int PRIMARY KEY, v int)")
	insert := "INSERT INTO conditions (p, v) VALUES (?, ?) IF NOT EXISTS"
	for _, wanted := range []bool{true, false} {
		applied, err := session.Query(insert, 1, 1).MapScanCAS(map[string]any{})
		check(err, insert)
		equal(applied, wanted, insert)
	}
	var before int
	applied, err := session.Query("UPDATE conditions SET v = 2 WHERE p = 1 IF v = 5").ScanCAS(&before)
	check(err, "IF v = 5")
	equal(applied, false, "IF v = 5")
	equal(before, 1, "the value that was not 5")
}

func metadata(*gocql.Session) {
	// One that reads the schema now: changes reach the others a moment later.
	session := connect(4)
	defer session.Close()
	known, err := session.KeyspaceMetadata(keyspace)
	check(err, "metadata")
	equal(known.StrategyClass, "org.apache.cassandra.locator.SimpleStrategy", "the strategy")
	table := known.Tables["pages"]
	equal(table.PartitionKey[0].Name, "p", "the partition key")
	equal(table.ClusteringColumns[0].Name, "c", "the clustering column")
}

// What a query was traced under.
type traced struct{ id []byte }

func (t *traced) Trace(id []byte) { t.id = id }

func traces(session *gocql.Session) {
	var query traced
	check(session.Query("SELECT v FROM batches WHERE p = 1").Trace(&query).Exec(), "a traced query")
	var told bytes.Buffer
	trace := gocql.NewTraceWriter(session, &told)
	// A server writes its traces down when it has answered.
	for try := 0; try < 100 && !strings.Contains(told.String(), "Reading go_driver.batches"); try++ {
		time.Sleep(20 * time.Millisecond)
		told.Reset()
		trace.Trace(query.id)
	}
	equal(strings.Contains(told.String(), "Reading go_driver.batches"), true, "a trace: "+told.String())
}

func errors(session *gocql.Session) {
	err := session.Query("SELECT * FROM no_such_table").Exec()
	equal(err != nil && strings.Contains(err.Error(), "no_such_table"), true, "an unknown table")
	err = session.Query("SELEC").Exec()
	equal(err != nil, true, "a syntax error")
}

func main() {
	plain, err := cluster(4).CreateSession()
	check(err, "connect")
	execute(plain, "DROP KEYSPACE IF EXISTS "+keyspace)
	execute(plain, "CREATE KEYSPACE "+keyspace+
		" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	plain.Close()
	session := connect(4)
	for _, part := range []func(*gocql.Session){
		types, userTypes, pages, batches, conditions, metadata, traces, errors,
	} {
		part(session)
	}
	session.Close()
	newer := connect(5)
	var text []byte
	check(newer.Query("SELECT textAsBlob('x') FROM system.local").Scan(&text), "protocol version 5")
	equal(bytes.Equal(text, []byte("x")), true, "protocol version 5")
	newer.Close()
	fmt.Println("all checks passed")
}
