import { expect } from 'vitest'
import { PostgresServer } from '../support/postgres-server.ts'
import { until } from '../support/until.ts'
import { blocksOf, Installation, type Surroundings } from './installation.ts'

export const BACKUP = 'docs/operate/backup.md'
export const POSTERN_TOOL = /database (?:backup|restore)/
export const PG_TOOLS = /pg_dump|pg_restore/
/** Gateways report every ten seconds. */
const COUNTED_MS = 30_000
/** Of the drill itself. */
export const DRILL_KEYS = /\bdrill-/

/**
 * The restore drill of docs/operate/backup.md.
 * @param tool the blocks that use it
 * @param takesOver whether the restore itself takes over revocations
 */
export async function drill(installation: Installation, tool: RegExp, takesOver: boolean): Promise<void> {
  const blocks = blocksOf(BACKUP)
  const [backUp = '', restore = ''] = blocks.filter(block => tool.test(block))
  const emptyRedis = blocks.find(block => block.includes('redis-cli')) ?? ''
  const [issue = '', change = '', ask = ''] = blocks.filter(block => DRILL_KEYS.test(block))
  const statuses = async () => (await installation.follow([ask])).join('').trim().split('\n')
  await installation.follow([issue])
  expect(await statuses()).toEqual(['a 200', 'b 200'])
  const { keyId } = await installation.describe(installation.read('drill-a').trim())
  // A database of an installation that was used: on PostgreSQL the first counts make partitions.
  const isCounted = async () => /"requests":[1-9]/.test(await installation.keys(`usage ${keyId} -o json`))
  await until('the console has counted the requests', isCounted, COUNTED_MS)
  await installation.follow([backUp, change])
  expect(await statuses()).toEqual(['a 401', 'b 200', 'c 200'])

  await installation.stop('console')
  expect(await statuses()).toEqual(['a 401', 'b 200', 'c 200'])
  await installation.follow([restore])
  expect(await statuses()).toEqual(['a 401', 'b 200', 'c 200'])
  await installation.startAgain('console')
  expect(await statuses()).toEqual(['a 401', 'b 200', 'c 200'])
  if (!takesOver) await installation.keys(`revoke ${keyId} --yes`)
  await installation.follow([emptyRedis])
  await installation.keys('sync')
  await installation.stop('gateway')
  await installation.startAgain('gateway')
  expect(await statuses()).toEqual(['a 401', 'b 200', 'c 401'])
}

/** The drill on a PostgreSQL server of its own. */
export async function drillPostgres(
  surroundings: Surroundings,
  tool: RegExp,
  takesOver: boolean,
): Promise<void> {
  const postgres = await PostgresServer.started()
  try {
    const databaseUrl = await postgres.database()
    const { hostname, port, username, password, pathname } = new URL(databaseUrl)
    const env = {
      PGHOST: hostname,
      PGPORT: port,
      PGUSER: username,
      PGDATABASE: pathname.slice(1),
      PGPASSWORD: password,
    }
    await drill(await Installation.start({ ...surroundings, databaseUrl, env }), tool, takesOver)
  } finally {
    await postgres.stop()
  }
}
