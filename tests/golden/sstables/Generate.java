import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.io.sstable.CQLSSTableWriter;

/** Writes SSTables with Cassandra's own writer, a folder for each table: Generate FOLDER [delete] COMPRESSION... */
public class Generate {
    private static final String COLUMNS = "(p int, c int, d text, s text static, v text, n bigint, f frozen<list<int>>, "
        + "m map<text, int>, e set<int>, PRIMARY KEY (p, c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) AND compression = ";

    private static CQLSSTableWriter writer(File root, String table, String compression, String statement) {
        File folder = new File(root, table);
        folder.mkdirs();
        String options = compression.equals("none") ? "{'enabled': 'false'}"
            : "{'class': '" + compression + "', 'chunk_length_in_kb': '4'}";
        return CQLSSTableWriter.builder().inDirectory(folder.getPath())
            .forTable("CREATE TABLE golden." + table + " " + COLUMNS + options)
            .using(statement.replace("TABLE", "golden." + table))
            .withPartitioner(Murmur3Partitioner.instance).build();
    }

    private static void run(String[] args) throws Exception {
        File root = new File(args[0]);
        boolean delete = args[1].equals("delete");
        for (String compression : Arrays.copyOfRange(args, delete ? 2 : 1, args.length)) {
            CQLSSTableWriter rows = writer(root, compression.toLowerCase(), compression,
                "INSERT INTO TABLE (p, c, d, s, v, n, f, m, e) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?");
            for (int p = 0; p < 12; p++)
                for (int c = 0; c < 1 + (p % 4) * 8; c++) {
                    Map<String, Integer> map = new LinkedHashMap<>();
                    for (int i = 0; i < c % 3; i++) map.put("key " + i, i * p);
                    rows.addRow(p, c, "d" + c % 3, "static " + p, c % 5 == 0 ? null : "value " + c, c * 1000000007L,
                        Arrays.asList(p, c), map, new LinkedHashSet<>(Arrays.asList(c, c + 1)), 1000000L + c,
                        c % 7 == 6 ? 100000000 : 0);
                }
            rows.close();
        }
        // Two partitions of more than one block of 64 KiB.
        CQLSSTableWriter wide = writer(root, "wide", "LZ4Compressor", "INSERT INTO TABLE (p, c, d, v) VALUES (?, ?, ?, ?) USING TIMESTAMP ?");
        char[] filler = new char[150];
        Arrays.fill(filler, 'x');
        for (int p = 0; p < 2; p++)
            for (int c = 0; c < 1500; c++)
                wide.addRow(p, c, "", new String(filler), 7000000L);
        wide.close();
        if (!delete) return; // before 4.0 the writer only inserts
        CQLSSTableWriter ranges = writer(root, "ranges", "none", "DELETE FROM TABLE USING TIMESTAMP ? WHERE p = ? AND c > ? AND c <= ?");
        for (int p = 0; p < 10; p++)
            for (int c = 0; c < 5; c++)
                ranges.addRow(5000000L + c, p, c * 3, c * 3 + 1 + c % 3);
        ranges.close();
    }

    public static void main(String[] args) {
        // Cassandra's threads would keep the process alive.
        try {
            run(args);
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }
}
