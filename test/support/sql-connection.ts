import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'

export type Row = Readonly<Record<string, unknown>>

export interface Column {
  readonly table: string
  readonly name: string
  readonly type: string
  readonly isNullable: boolean
  readonly hasDefault: boolean
  readonly isPrimary: boolean
}

/** A database as an operator's client sees it, past the program. */
export interface SqlConnection {
  run(sql: string): Promise<readonly Row[]>
  /** Runs several statements. */
  script(sql: string): Promise<void>
  /** @throws if the database could not run the statement: a table, column or function is missing */
  prepare(sql: string): Promise<void>
  columns(): Promise<readonly Column[]>
  close(): Promise<void>
}

export async function connect(url: string): Promise<SqlConnection> {
  return url.startsWith('sqlite:') ? connectSqlite(url.slice('sqlite:'.length)) : await connectPostgres(url)
}

function connectSqlite(file: string): SqlConnection {
  const database = new DatabaseSync(file)
  const run = async (sql: string) => database.prepare(sql).all()
  return {
    run,
    script: async sql => database.exec(sql),
    prepare: async sql => void database.prepare(sql),
    columns: async () => {
      const rows = await run(`select t.name as "table", c.* from sqlite_schema t, pragma_table_info(t.name) c
        where t.type = 'table' and t.name not like 'sqlite_%'`)
      return rows.map(row => ({
        table: String(row['table']),
        name: String(row['name']),
        type: String(row['type']).toLowerCase(),
        // SQLite does not count the columns of a primary key as not null.
        isNullable: row['notnull'] === 0 && row['pk'] === 0,
        hasDefault: row['dflt_value'] !== null,
        isPrimary: row['pk'] !== 0,
      }))
    },
    close: async () => database.close(),
  }
}

async function connectPostgres(url: string): Promise<SqlConnection> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const run = async (sql: string) => (await client.query<Row>(sql)).rows
  let prepared = 0
  return {
    run,
    script: async sql => void (await client.query(sql)),
    prepare: async sql => void (await client.query(`prepare statement_${prepared++} as ${sql}`)),
    columns: async () => {
      const rows = await run(`select c.*, exists (select from information_schema.table_constraints t
          join information_schema.key_column_usage k using (constraint_schema, constraint_name)
          where t.constraint_type = 'PRIMARY KEY' and k.table_name = c.table_name and k.column_name = c.column_name) as is_primary
        from information_schema.columns c where c.table_schema = 'public'`)
      return rows.map(row => ({
        table: String(row['table_name']),
        name: String(row['column_name']),
        type: `${String(row['data_type'])} ${String(row['collation_name'] ?? '')}`.trim(),
        isNullable: row['is_nullable'] === 'YES',
        hasDefault: row['column_default'] !== null || row['is_identity'] === 'YES',
        isPrimary: row['is_primary'] === true,
      }))
    },
    close: () => client.end(),
  }
}
