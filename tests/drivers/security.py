"""Roles, passwords and permissions, through the Python driver: security.py HOST PORT CLASS[.test] ...

For a server with PasswordAuthenticator and CassandraAuthorizer; see python_driver.py.
"""

import itertools

from cassandra import InvalidRequest, Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import SyntaxException
from cassandra.query import BatchStatement
from python_driver import Connected, connect, eventually, main


def log_in(name, password, **options):
    return connect(auth_provider=PlainTextAuthProvider(name, password), **options)


class Security(Connected):
    names = itertools.count()

    @classmethod
    def open(cls):
        return log_in("cassandra", "cassandra")

    def role(self, options="LOGIN = true"):
        name = f"role_{next(self.names)}"
        self.session.execute(f"DROP ROLE IF EXISTS {name}")
        self.session.execute(f"CREATE ROLE {name} WITH PASSWORD = '{name}' AND {options}")
        self.addCleanup(lambda: self.session.execute(f"DROP ROLE IF EXISTS {name}"))
        return name

    def table(self):
        return super().table("p int PRIMARY KEY, v int")

    def as_role(self, name, **options):
        cluster = log_in(name, name, **options)
        self.addCleanup(cluster.shutdown)
        return cluster.connect("drivers")

    def refusal(self, name, password):
        cluster = log_in(name, password)
        try:
            with self.assertRaises(NoHostAvailable) as refused:
                cluster.connect()
            return str(list(refused.exception.errors.values())[0]).replace(name, "NAME")
        finally:
            cluster.shutdown()

    def allowed(self, session, statement):
        """Grants may take a moment to be seen."""

        def attempt():
            try:
                session.execute(statement)
                return True
            except Unauthorized:
                return False

        eventually(attempt, f"permission for {statement}")

    def refused(self, session, statement):
        def attempt():
            try:
                session.execute(statement)
                return False
            except Unauthorized:
                return True

        eventually(attempt, f"refusal of {statement}")

    def test_masked_columns(self):
        session, name = self.session, self.role()
        masking = "UPDATE system.config SET value = '%s' WHERE name = 'dynamic_data_masking_enabled'"
        columns = "p int, c text MASKED WITH mask_inner(1, null), v int MASKED WITH DEFAULT, PRIMARY KEY (p, c)"
        with self.assertRaisesRegex(InvalidRequest, "dynamic data masking is not enabled"):
            Connected.table(self, columns)
        session.execute(masking % "true")
        self.addCleanup(lambda: session.execute(masking % "false"))
        table = Connected.table(self, columns)
        session.execute(f"INSERT INTO {table} (p, c, v) VALUES (1, 'secret', 42)")
        session.execute(f"GRANT ALL ON TABLE {table} TO {name}")
        session.execute(f"CREATE MATERIALIZED VIEW {table}_v AS SELECT * FROM {table} "
                        "WHERE p IS NOT NULL AND c IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, p, c)")  # fmt: skip
        self.addCleanup(lambda: session.execute(f"DROP MATERIALIZED VIEW {table}_v"))
        clear, theirs = f"SELECT * FROM {table}", self.as_role(name)
        self.allowed(theirs, clear)
        rows = lambda session, query: [tuple(row) for row in session.execute(query)]
        self.assertEqual(rows(session, clear), [(1, "secret", 42)])
        self.assertEqual(rows(theirs, clear), [(1, "s*****", 0)])
        self.assertEqual(rows(theirs, f"SELECT * FROM {table}_v"), [(0, 1, "s*****")])
        result = theirs.execute(f"SELECT JSON c, v FROM {table}")
        self.assertEqual(result.one()[0], '{"c": "s*****", "v": 0}')
        result = theirs.execute(f"SELECT max(v), v + 1, c AS x FROM {table}")
        self.assertEqual((result.column_names, tuple(result.one())), (["system.max(v)", "v + 1", "x"], (0, 1, "s*****")))
        prepared = theirs.prepare(f"SELECT v FROM {table} WHERE p = ? AND c = ?")
        for choosing in [(prepared, (1, "secret")), (f"SELECT p FROM {table} WHERE v = 42 ALLOW FILTERING", None)]:
            with self.assertRaisesRegex(Unauthorized, "no UNMASK nor SELECT_MASKED permission"):
                theirs.execute(*choosing)
        condition = f"UPDATE {table} SET v = 1 WHERE p = 1 AND c = 'secret' IF v = 7"
        self.refused(theirs, condition)
        session.execute(f"GRANT SELECT_MASKED ON TABLE {table} TO {name}")
        self.allowed(theirs, f"SELECT p FROM {table} WHERE v = 42 ALLOW FILTERING")
        self.assertEqual(rows(theirs, f"SELECT v, p FROM {table} WHERE v = 42 ALLOW FILTERING"), [(0, 1)])
        session.execute(f"GRANT UNMASK ON TABLE {table} TO {name}")
        self.allowed(theirs, condition)
        self.assertEqual(rows(theirs, clear), [(1, "secret", 42)])
        session.execute(f"REVOKE UNMASK ON TABLE {table} FROM {name}")
        session.execute(f"ALTER TABLE {table} ALTER v DROP MASKED")
        session.execute(f"ALTER TABLE {table} ALTER c MASKED WITH mask_replace('-')")
        eventually(lambda: rows(theirs, clear) == [(1, "-", 42)], "other masks")
        described = session.execute(f"DESCRIBE TABLE {table}").one().create_statement
        self.assertIn("c text MASKED WITH system.mask_replace('-'),", described)
        for wrong in ["ALTER v MASKED WITH mask_hash()", "ALTER v MASKED WITH nothing()", "ALTER x MASKED WITH DEFAULT"]:
            with self.assertRaises(InvalidRequest):
                session.execute(f"ALTER TABLE {table} {wrong}")

    def test_a_refusal_does_not_tell_whether_the_role_exists(self):
        name = self.role()
        self.assertEqual(self.refusal(name, "wrong"), self.refusal("nobody_at_all", "wrong"))

    def test_who_may_not_log_in_does_not(self):
        name = self.role("LOGIN = false")
        self.assertIn("not permitted to log in", self.refusal(name, name))

    def test_version_5(self):
        session = self.as_role(self.role(), protocol_version=5)
        self.assertTrue(session.execute("SELECT release_version FROM system.local").one())

    def test_a_changed_password_counts(self):
        name = self.role()
        self.session.execute(f"ALTER ROLE {name} WITH PASSWORD = 'other'")
        eventually(lambda: "incorrect" in self.refusal(name, name), "the old password is refused")
        cluster = log_in(name, "other")
        cluster.connect()
        cluster.shutdown()

    def test_permissions_are_checked_on_every_statement(self):
        table, name = self.table(), self.role()
        session = self.as_role(name)
        self.refused(session, f"SELECT * FROM {table}")
        self.session.execute(f"GRANT SELECT ON {table} TO {name}")
        self.allowed(session, f"SELECT * FROM {table}")
        insert = session.prepare(f"INSERT INTO {table} (p, v) VALUES (?, ?)")
        batch = BatchStatement()
        batch.add(insert, (1, 1))
        for write in (lambda: session.execute(insert, (1, 1)), lambda: session.execute(batch)):
            with self.assertRaises(Unauthorized):
                write()
        self.session.execute(f"GRANT MODIFY ON KEYSPACE drivers TO {name}")
        self.allowed(session, f"INSERT INTO {table} (p, v) VALUES (1, 1)")
        session.execute(insert, (2, 2))
        self.session.execute(f"REVOKE MODIFY ON KEYSPACE drivers FROM {name}")
        self.refused(session, f"INSERT INTO {table} (p, v) VALUES (1, 1)")
        for statement in (f"DROP TABLE {table}", f"CREATE ROLE {name}_2", f"GRANT SELECT ON {table} TO {name}"):
            self.refused(session, statement)

    def test_permissions_come_through_roles(self):
        table, readers, name = self.table(), self.role("LOGIN = false"), self.role()
        session = self.as_role(name)
        self.session.execute(f"GRANT SELECT ON {table} TO {readers}")
        self.refused(session, f"SELECT * FROM {table}")
        self.session.execute(f"GRANT {readers} TO {name}")
        self.allowed(session, f"SELECT * FROM {table}")
        with self.assertRaises(InvalidRequest):
            self.session.execute(f"GRANT {name} TO {readers}")
        listed = {row.permission for row in self.session.execute(f"LIST ALL PERMISSIONS OF {name}")}
        self.assertEqual(listed, {"SELECT"})

    def test_who_makes_a_table_owns_it_and_its_name_does_not(self):
        first, second = self.role(), self.role()
        table = f"security_{next(self.names)}"
        for name in (first, second):
            self.session.execute(f"GRANT CREATE ON KEYSPACE drivers TO {name}")
        one, other = self.as_role(first), self.as_role(second)
        self.allowed(one, f"CREATE TABLE {table} (p int PRIMARY KEY)")
        self.allowed(one, f"SELECT * FROM {table}")
        self.refused(other, f"SELECT * FROM {table}")
        one.execute(f"DROP TABLE {table}")
        self.allowed(other, f"CREATE TABLE {table} (p int PRIMARY KEY)")
        self.refused(one, f"SELECT * FROM {table}")

    def test_what_no_resource_has_cannot_be_granted(self):
        name = self.role()
        with self.assertRaises(SyntaxException):
            self.session.execute(f"GRANT EXECUTE ON ALL KEYSPACES TO {name}")
        with self.assertRaises(InvalidRequest):
            self.session.execute(f"GRANT SELECT ON no_such_table TO {name}")

    def test_conditions_and_indexes_need_permission_for_the_table(self):
        table, name = self.table(), self.role()
        session = self.as_role(name)
        self.session.execute(f"GRANT MODIFY ON {table} TO {name}")
        self.allowed(session, f"INSERT INTO {table} (p, v) VALUES (1, 1)")
        # Its answer tells what is there.
        self.refused(session, f"UPDATE {table} SET v = 2 WHERE p = 1 IF v = 3")
        self.session.execute(f"GRANT SELECT ON {table} TO {name}")
        self.allowed(session, f"UPDATE {table} SET v = 2 WHERE p = 1 IF v = 3")
        self.session.execute(f"CREATE INDEX {table}_v ON {table} (v)")
        self.refused(session, f"DROP INDEX {table}_v")
        self.session.execute(f"GRANT ALTER ON {table} TO {name}")
        self.allowed(session, f"DROP INDEX {table}_v")

    def test_roles_and_levels_are_described(self):
        name, member = self.role(), self.role("LOGIN = false")
        self.session.execute(f"GRANT {name} TO {member}")
        self.session.execute(f"GRANT SELECT ON KEYSPACE drivers TO {name}")
        self.session.execute("CREATE SERVICE LEVEL IF NOT EXISTS slow WITH timeout = 2s AND shares = 5")
        self.addCleanup(lambda: self.session.execute("DROP SERVICE LEVEL slow"))
        self.session.execute(f"ATTACH SERVICE LEVEL slow TO {name}")
        described = {row.create_statement for row in self.session.execute("DESCRIBE SCHEMA WITH INTERNALS")}
        for statement in [
            f"CREATE ROLE {name} WITH LOGIN = true AND SUPERUSER = false;",
            f"GRANT {name} TO {member};",
            f"GRANT SELECT ON KEYSPACE drivers TO {name};",
            "CREATE SERVICE LEVEL slow WITH TIMEOUT = 2000ms AND SHARES = 5;",
            "ALTER SERVICE LEVEL driver WITH WORKLOAD_TYPE = 'batch' AND SHARES = 200;",
            f"ATTACH SERVICE LEVEL slow TO {name};",
        ]:
            self.assertIn(statement, described)
        with_passwords = "DESCRIBE SCHEMA WITH INTERNALS AND PASSWORDS"
        self.assertTrue(any("HASHED PASSWORD" in row.create_statement for row in self.session.execute(with_passwords)))
        self.refused(self.as_role(name), with_passwords)


if __name__ == "__main__":
    main()
