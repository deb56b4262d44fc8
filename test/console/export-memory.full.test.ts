import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { toKeyRow } from '../../src/console/platform/database/key-row.ts'
import { openDatabase } from '../support/open-database.ts'
import { startPostern } from '../support/postern-process.ts'
import { residentMegabytes } from '../support/process-memory.ts'
import { SIGNING_SECRET } from '../support/signing-secret.ts'
import { someKey } from '../support/stored-keys.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

/** Some 200 MB of lines, so a console that held them all would die. */
const KEYS = 130_000
const ALLOWED_CIDRS = Array.from(
  { length: 30 },
  (_, n) => `2001:db8:1234:5678:9abc:def0:1234:${1000 + n}/128`,
)
const HEAP_MEGABYTES = 96
const TOKEN = 'admin-token-of-the-figures'
/** The reader pauses after so many chunks. */
const CHUNKS = 16
const PAUSE_MS = 15
/** No bound of the product: it ends a test that hangs, also where twenty programs wait for two cores. */
const TIMEOUT_MS = 900_000

/** Copies one key, with another id and digest each time. */
async function fill(databaseUrl: string): Promise<void> {
  const { writer, close } = await openDatabase(databaseUrl)
  const {
    id: _,
    digest: __,
    ...row
  } = toKeyRow(someKey({ expiresAtMs: Date.now() + 1e10, allowedCidrs: ALLOWED_CIDRS }), Date.now())
  const names = Object.keys(row).map(name => sql.ref(name))
  const values = Object.values(row).map(value => sql`${value}`)
  await sql`with recursive number(n) as (select 1 union all select n + 1 from number where n < ${KEYS})
    insert into keys (id, digest, ${sql.join(names)})
    select printf('key_%026d', n), lower(hex(randomblob(32))), ${sql.join(values)} from number`.execute(
    writer,
  )
  await close()
}

test(`a console with a heap of ${HEAP_MEGABYTES} MB exports ${KEYS} keys to a slow reader`, {
  timeout: TIMEOUT_MS,
}, async () => {
  const databaseUrl = `sqlite:${join(temporaryDirectory(), 'keys.db')}`
  await fill(databaseUrl)
  const { process: console, urls } = await startPostern('console', {
    POSTERN_DATABASE_URL: databaseUrl,
    POSTERN_ADMIN_TOKEN: TOKEN,
    POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
    POSTERN_DRAIN_DELAY_MS: '0',
    NODE_OPTIONS: `--max-old-space-size=${HEAP_MEGABYTES}`,
  })
  try {
    const { hostname, port } = new URL(urls.console)
    const pid = console.child.pid ?? 0
    const before = residentMegabytes(pid)
    const socket = connect(Number(port), hostname)
    socket.write(
      `GET /admin/v1/keys/export HTTP/1.1\r\nHost: console\r\nAuthorization: Bearer ${TOKEN}\r\nConnection: close\r\n\r\n`,
    )
    let [lines, bytes, chunks, most] = [0, 0, 0, before]
    for await (const chunk of socket) {
      bytes += chunk.length
      for (const byte of chunk as Buffer) if (byte === 0x7d) lines++
      if (++chunks % CHUNKS !== 0) continue
      most = Math.max(most, residentMegabytes(pid))
      await sleep(PAUSE_MS)
    }
    process.stdout.write(
      `figure: export of ${lines} keys, ${(bytes / 1e6).toFixed(0)} MB, ${(most - before).toFixed(0)} MB more memory\n`,
    )
    // A console that ran out of memory says so there.
    const { stderr } = await console.stop()
    expect({ lines, stderr }).toEqual({ lines: KEYS, stderr: '' })
    expect(bytes).toBeGreaterThan(1.5 * HEAP_MEGABYTES * 1e6)
  } finally {
    await console.stop()
  }
})
