import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openDatabase } from '../../../src/control/registry/database/open-database.ts'
import { rowOf } from '../../../src/control/registry/database/rows/key-rows.ts'
import { startSignIn } from '../../support/signed-in.ts'
import { someKey } from '../../support/stored-keys.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'

const KEYS = 100_000
const ROWS_AT_ONCE = 500
const ROUNDS = 15
const GOAL_MS = 50
const DAY_MS = 86_400_000

/** One workspace: a seventh revoked, some expired, some about to expire. */
async function fill(databaseUrl: string): Promise<void> {
  const { writer, close } = await openDatabase(databaseUrl)
  const nowMs = Date.now()
  const rowAt = (number: number) =>
    rowOf(
      someKey({
        name: `program ${number}`,
        createdAtMs: nowMs - (KEYS - number) * 1000,
        expiresAtMs: nowMs + ((number % 180) - 5) * DAY_MS,
        revokedAtMs: number % 7 === 0 ? nowMs : null,
      }),
      nowMs,
    )
  await writer.transaction().execute(async tx => {
    for (let made = 0; made < KEYS; made += ROWS_AT_ONCE) {
      const rows = Array.from({ length: ROWS_AT_ONCE }, (_, index) => rowAt(made + index))
      await tx.insertInto('keys').values(rows).execute()
    }
  })
  await close()
}

const LIST = '/workspaces/ws_1/keys'
const PATHS = [
  LIST,
  `${LIST}?state=expiring`,
  `${LIST}?state=revoked&sort=name`,
  `${LIST}?sort=-lastUsedAt`,
  `${LIST}?q=program+77`,
  '/workspaces',
  '/workspaces?q=ws',
  '/keys?state=suspended',
  `${LIST}/new`,
  '/workspaces/ws_1/audit',
  '/workspaces/ws_1/revoke-all',
]

test(`with ${KEYS} keys in a workspace every page takes under ${GOAL_MS} ms of processor time`, {
  timeout: 180_000,
}, async () => {
  const databaseUrl = `sqlite:${join(temporaryDirectory(), 'keys.db')}`
  await fill(databaseUrl)
  const oidc = { administratorClaim: 'roles', administratorValue: 'postern-admin' }
  const world = await startSignIn({ databaseUrl, signIn: { oidc } })
  const ada = await world.signedIn({
    sub: 'ada',
    name: 'Ada',
    workspaces: ['ws_1'],
    roles: ['postern-admin'],
  })
  const key = (await ada.call('GET', '/workspaces/ws_1/keys?limit=1')).body.keys[0]
  const slow: string[] = []
  for (const path of [...PATHS, `${LIST}/${key?.id}`]) {
    const times: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      // Processor time: on a machine that others use, the clock would measure them.
      const before = process.cpuUsage()
      const { status } = await ada.browser.visit(path)
      const { user, system } = process.cpuUsage(before)
      times.push((user + system) / 1000)
      expect([path, status]).toEqual([path, 200])
    }
    const medianMs = times.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? Number.POSITIVE_INFINITY
    process.stdout.write(`figure: page ${path}: ${medianMs.toFixed(1)} ms\n`)
    if (medianMs >= GOAL_MS) slow.push(`${path}: ${medianMs.toFixed(1)} ms`)
  }
  expect(slow).toEqual([])
})
