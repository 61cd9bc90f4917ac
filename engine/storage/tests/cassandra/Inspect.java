import java.io.File;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.stream.Stream;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.compaction.Verifier;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.io.sstable.CQLSSTableWriter;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.tools.JsonTransformer;
import org.apache.cassandra.tools.Util;
import org.apache.cassandra.utils.OutputHandler;

/**
 * Does to several files what sstableverify (extended) and sstabledump do to one, with their classes, in one process:
 * Inspect SCRATCH KEYSPACE (TABLE "CREATE TABLE .." "INSERT .." DATA_FILE)...
 * The dump of FILE goes to FILE.json.
 */
public class Inspect {
    private static void run(String[] args) throws Exception {
        DatabaseDescriptor.toolInitialization();
        for (int at = 2; at < args.length; at += 4) {
            // The writer's builder makes the table known without a server; it writes nothing.
            CQLSSTableWriter.builder().inDirectory(args[0]).forTable(args[at + 1]).using(args[at + 2])
                .withPartitioner(Murmur3Partitioner.instance).build();
        }
        Keyspace keyspace = Keyspace.openWithoutSSTables(args[1]);
        for (int at = 2; at < args.length; at += 4) {
            String file = args[at + 3];
            Descriptor descriptor = Descriptor.fromFilename(file);
            ColumnFamilyStore table = keyspace.getColumnFamilyStore(args[at]);
            SSTableReader sstable = SSTableReader.openNoValidation(descriptor, table.metadata);
            Verifier.Options options = Verifier.options().extendedVerification(true).checkVersion(false).build();
            try (Verifier verifier = new Verifier(table, sstable, new OutputHandler.SystemOutput(false, false), true, options)) {
                verifier.verify();
            }
            System.out.println("verified " + file);
            // The schema from the file itself, as sstabledump does.
            TableMetadata metadata = Util.metadataFromSSTable(descriptor);
            SSTableReader again = SSTableReader.openNoValidation(descriptor, TableMetadataRef.forOfflineTools(metadata));
            try (ISSTableScanner scanner = again.getScanner(); PrintStream out = new PrintStream(file + ".json")) {
                Stream<UnfilteredRowIterator> partitions = Util.iterToStream(scanner);
                JsonTransformer.toJson(scanner, partitions, true, metadata, out);
            }
        }
    }

    public static void main(String[] args) {
        // Cassandra's threads would keep the process alive.
        try {
            run(args);
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace(System.out);
            System.exit(1);
        }
    }
}
