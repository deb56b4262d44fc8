import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { recordKeyName } from '../../src/domain/wire.ts'
import { runPostern } from '../support/postern-process.ts'
import { until } from '../support/until.ts'
import { startWorld, type World } from '../support/world.ts'

let world: World
beforeAll(async () => {
  world = await startWorld()
})
afterAll(() => world.stop())

const postern = (...args: string[]) => runPostern(args, world.cliEnv)

async function codeOf(secret: string): Promise<unknown> {
  const headers = { authorization: `Bearer ${secret}` }
  const response = await fetch(`${world.gateway.urls.gateway}/api/v1/auth`, { headers })
  return response.status === 200 ? 200 : ((await response.json()) as { code: string }).code
}

test('after a rotation both keys work until the overlap ends, and the new one can be rotated at once', async () => {
  const first = await world.issue({ workspaceId: 'ws_turn' })
  const rotated = await postern('keys', 'rotate', first.id, '--overlap', '1h', '--expires-in', '30d')
  expect(rotated.code).toBe(0)
  const second = rotated.stdout
  expect(rotated.stderr).toContain(`replaces ${first.id}`)
  expect([await codeOf(first.secret), await codeOf(second)]).toEqual([200, 200])

  const again = await postern('keys', 'rotate', first.id)
  expect(again).toMatchObject({ code: 65, stdout: '', stderr: expect.stringContaining('409 conflict') })

  const listed = await postern('keys', 'list', '--workspace', 'ws_turn')
  const [, successor = '', old = ''] = listed.stdout.split('\n')
  expect(successor).toMatch(/ active .* in 30 days/)
  expect(old).toMatch(/ retiring /)

  const last = await postern('keys', 'rotate', successor.slice(0, 30), '--overlap', '0s', '--json')
  const { secret } = JSON.parse(last.stdout) as { secret: string }
  expect(await codeOf(secret)).toBe(200)
  await until('the key is rejected as revoked', async () => (await codeOf(second)) === 'key_revoked')
})

test('a rotation whose response was lost happens once, and the command says that the secret is lost', async () => {
  const first = await world.issue({ workspaceId: 'ws_lost' })
  const url = await startBreakingProxy(world.console.urls.console)
  const exit = await runPostern(['keys', 'rotate', first.id], { ...world.cliEnv, POSTERN_CONSOLE_URL: url })
  expect([exit.code, exit.stdout]).toEqual([1, ''])
  const { json } = await world.admin('GET', '/workspaces/ws_lost/keys')
  const keys = json['keys'] as { id: string }[]
  expect(keys).toHaveLength(2)
  expect(exit.stderr).toContain(`postern keys rotate ${keys[0]?.id} --overlap 0s`)
})

test('sync rewrites records that Redis has lost', async () => {
  const keys = [await world.issue(), await world.issue()]
  await world.redis.admin.flushall()
  const exit = await postern('keys', 'sync')
  expect(exit.code).toBe(0)
  expect(exit.stdout).toMatch(/^Wrote \d+ keys? from the database to Redis\.$/)
  for (const { secret } of keys) {
    expect(await world.redis.admin.exists(recordKeyName(digestKey(secret)))).toBe(1)
  }
  const { synced, total } = JSON.parse((await postern('keys', 'sync', '--json')).stdout)
  expect(synced).toBe(total)
})

/** Forwards all bytes, but cuts the first connection when its response arrives, before it forwards a byte of it. */
async function startBreakingProxy(target: string): Promise<string> {
  const { hostname, port } = new URL(target)
  let first = true
  const server = createServer(client => {
    const upstream = connect(Number(port), hostname)
    const cut = first
    first = false
    client.pipe(upstream)
    if (cut) upstream.once('data', () => client.destroy())
    else upstream.pipe(client)
    const end = () => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) socket.on('error', () => {}).on('close', end)
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('It listens on TCP')
  return `http://127.0.0.1:${address.port}`
}
