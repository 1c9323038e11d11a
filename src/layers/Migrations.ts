/** The tables, as numbered steps that are only ever added to. */
import { Data, Effect, Layer } from "effect"
import { Migrator, SqlClient } from "effect/sql"

const ledger = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.all(
    [
      // The ledger: what happened, in order, each entry hashed with the one before it.
      sql`CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        operation_id TEXT NOT NULL,
        event TEXT NOT NULL,
        body TEXT NOT NULL,
        hash TEXT NOT NULL
      ) STRICT`,
      sql`CREATE INDEX events_by_operation ON events (operation_id, seq)`,
      sql`CREATE TRIGGER events_are_kept BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END`,
      sql`CREATE TRIGGER events_are_final BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END`,
      // Projection of the ledger: one row an operation.
      sql`CREATE TABLE operations (
        operation_id TEXT PRIMARY KEY,
        operation_key TEXT,
        caller TEXT NOT NULL,
        workspace_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        check_only INTEGER NOT NULL,
        state TEXT NOT NULL,
        server TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        finished_at INTEGER,
        process_id TEXT,
        result TEXT,
        refusal TEXT
      ) STRICT`,
      sql`CREATE UNIQUE INDEX operations_by_key ON operations (caller, workspace_id, operation_key) WHERE operation_key IS NOT NULL`,
      sql`CREATE UNIQUE INDEX operations_by_process ON operations (process_id) WHERE process_id IS NOT NULL`,
      sql`CREATE INDEX operations_running ON operations (state) WHERE state = 'running'`,
      // Who may call over HTTP. Only hashes of tokens are kept.
      sql`CREATE TABLE callers (
        name TEXT PRIMARY KEY,
        token_hash TEXT NOT NULL UNIQUE,
        created_at INTEGER NOT NULL
      ) STRICT`,
    ],
    { discard: true },
  ),
)

/**
 * Who works where and who waits, of all servers on this database. `number` is a waiter's place in the queue and a holder's
 * fence: AUTOINCREMENT never gives one twice, not even after the table was empty.
 */
const leases = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql`CREATE TABLE leases (
      number INTEGER PRIMARY KEY AUTOINCREMENT,
      waits INTEGER NOT NULL,
      waited_as INTEGER,
      workspace_id TEXT NOT NULL,
      root TEXT NOT NULL,
      kind TEXT NOT NULL,
      paths TEXT NOT NULL,
      holder TEXT NOT NULL,
      server TEXT NOT NULL,
      since INTEGER NOT NULL
    ) STRICT`,
)

/** The operator's credential, and the browsers that are logged in with it. Only hashes. */
const operator = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.all(
    [
      sql`CREATE TABLE operator (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        credential_hash TEXT NOT NULL,
        created_at INTEGER NOT NULL
      ) STRICT`,
      sql`CREATE TABLE operator_logins (
        login_hash TEXT PRIMARY KEY,
        expires_at INTEGER NOT NULL
      ) STRICT`,
    ],
    { discard: true },
  ),
)

/** The ledger is about more than operations, and an operation's row says why it is in its state. */
const subjects = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.all(
    [
      sql`ALTER TABLE events RENAME COLUMN operation_id TO subject`,
      sql`ALTER TABLE operations ADD COLUMN reason TEXT`,
      sql`UPDATE operations SET reason = (SELECT body ->> 'reason' FROM events WHERE subject = operation_id ORDER BY seq DESC LIMIT 1)`,
    ],
    { discard: true },
  ),
)

/** Works, what people want of them, and who was given it under which key. */
const works = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.all(
    [
      sql`CREATE TABLE works (
        number INTEGER PRIMARY KEY,
        work_id TEXT NOT NULL UNIQUE,
        workspace_id TEXT NOT NULL,
        caller TEXT NOT NULL,
        title TEXT,
        operation_key TEXT,
        state TEXT NOT NULL,
        opened_at INTEGER NOT NULL,
        closed_at INTEGER
      ) STRICT`,
      sql`CREATE UNIQUE INDEX works_by_key ON works (caller, workspace_id, operation_key) WHERE operation_key IS NOT NULL`,
      sql`CREATE TABLE instructions (
        instruction_id TEXT PRIMARY KEY,
        work_id TEXT NOT NULL,
        state TEXT NOT NULL,
        text TEXT NOT NULL,
        position INTEGER,
        drafted_at INTEGER NOT NULL,
        queued_at INTEGER,
        claimed_by TEXT,
        claimed_until INTEGER,
        server TEXT,
        deliveries INTEGER NOT NULL,
        ended_at INTEGER,
        note TEXT
      ) STRICT`,
      sql`CREATE INDEX instructions_by_place ON instructions (work_id, state, position)`,
      sql`CREATE TABLE claims (
        work_id TEXT NOT NULL,
        caller TEXT NOT NULL,
        operation_key TEXT NOT NULL,
        instruction_id TEXT NOT NULL,
        PRIMARY KEY (work_id, caller, operation_key)
      ) STRICT`,
    ],
    { discard: true },
  ),
)

/** What each caller may use; one that is known by a login or by an issuer has no token. */
const rights = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.all(
    [
      sql`ALTER TABLE callers RENAME TO callers_before`,
      sql`CREATE TABLE callers (
        name TEXT PRIMARY KEY,
        token_hash TEXT UNIQUE,
        subject TEXT UNIQUE,
        workspaces TEXT,
        highest TEXT,
        trust_prompts INTEGER NOT NULL DEFAULT 0,
        created_at INTEGER NOT NULL
      ) STRICT`,
      sql`INSERT INTO callers (name, token_hash, created_at) SELECT name, token_hash, created_at FROM callers_before`,
      sql`DROP TABLE callers_before`,
    ],
    { discard: true },
  ),
)

/** Calls that are held for a person, and what persons have granted for good. */
const approvals = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.all(
    [
      sql`CREATE TABLE approvals (
        approval_id TEXT PRIMARY KEY,
        operation_id TEXT NOT NULL UNIQUE,
        workspace_id TEXT NOT NULL,
        caller TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        state TEXT NOT NULL,
        hold TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        decided_at INTEGER,
        decided_by TEXT,
        reason TEXT
      ) STRICT`,
      sql`CREATE INDEX approvals_open ON approvals (state, expires_at)`,
      sql`CREATE TABLE grants (
        grant_id TEXT PRIMARY KEY,
        workspace_id TEXT NOT NULL,
        argv TEXT NOT NULL,
        granted_by TEXT NOT NULL,
        created_at INTEGER NOT NULL
      ) STRICT`,
    ],
    { discard: true },
  ),
)

/** The embedded OAuth server: clients, codes, and tokens, which go with their caller. Only hashes of secrets. */
const authorizations = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.all(
    [
      sql`CREATE TABLE oauth_clients (
        client_id TEXT PRIMARY KEY,
        metadata TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        used INTEGER NOT NULL
      ) STRICT`,
      sql`CREATE TABLE oauth_codes (
        code_hash TEXT PRIMARY KEY,
        client_id TEXT NOT NULL,
        redirect_uri TEXT NOT NULL,
        challenge TEXT NOT NULL,
        resource TEXT NOT NULL,
        name TEXT NOT NULL,
        rights TEXT NOT NULL,
        expires_at INTEGER NOT NULL,
        caller TEXT
      ) STRICT`,
      sql`CREATE TABLE oauth_grants (
        caller TEXT PRIMARY KEY REFERENCES callers (name) ON DELETE CASCADE,
        client_id TEXT NOT NULL,
        resource TEXT NOT NULL
      ) STRICT`,
      sql`CREATE TABLE oauth_tokens (
        token_hash TEXT PRIMARY KEY,
        caller TEXT NOT NULL REFERENCES oauth_grants (caller) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        expires_at INTEGER NOT NULL,
        spent INTEGER NOT NULL
      ) STRICT`,
      sql`CREATE INDEX oauth_tokens_by_caller ON oauth_tokens (caller)`,
    ],
    { discard: true },
  ),
)

/** The oldest events may go once an event of their own says so (`LedgerCut`). */
const retention = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.all(
    [
      sql`CREATE TABLE ledger_start (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        through INTEGER NOT NULL,
        hash TEXT NOT NULL
      ) STRICT`,
      sql`DROP TRIGGER events_are_kept`,
      sql`CREATE TRIGGER events_are_kept BEFORE DELETE ON events WHEN OLD.seq > coalesce((SELECT through FROM ledger_start), 0)
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END`,
    ],
    { discard: true },
  ),
)

/** Lists of operations are read newest first. */
const operationTimes = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`CREATE INDEX operations_by_time ON operations (created_at, operation_id)`,
)

const steps = {
  "0001_ledger": ledger,
  "0002_leases": leases,
  "0003_operator": operator,
  "0004_subjects": subjects,
  "0005_works": works,
  "0006_rights": rights,
  "0007_approvals": approvals,
  "0008_authorizations": authorizations,
  "0009_retention": retention,
  "0010_operation_times": operationTimes,
}

/** The database was made by a newer version, whose tables this one does not know. */
class NewerVersion extends Data.TaggedError("NewerVersion")<{ readonly message: string }> {}

/** The newest step this database has taken; a statement without a lock, so that a start waits for nobody. */
const taken = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [table] = yield* sql`SELECT 1 FROM sqlite_master WHERE name = 'effect_sql_migrations'`
  if (table === undefined) return 0
  const [row] = yield* sql<{ readonly step: number | null }>`SELECT max(migration_id) AS step FROM effect_sql_migrations`
  return row?.step ?? 0
})

/** Brings the database to the newest shape, once, whoever else begins at the same time; does nothing when it is there already. */
export const migrate = Effect.gen(function* () {
  const newest = Object.keys(steps).length
  const step = yield* taken
  if (step > newest) return yield* new NewerVersion({ message: "a newer version of codespace made its tables; use that version" })
  if (step < newest) yield* Migrator.make({})({ loader: Migrator.fromRecord(steps) })
})

export const layer = Layer.effectDiscard(migrate)
