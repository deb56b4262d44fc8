import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { startConsole } from '../support/console.ts'
import { ClusterGroup } from '../support/redis-cluster.ts'
import { Fleet, Replica } from '../support/redis-fleet.ts'
import { addUser, type RedisGroup } from '../support/redis-group.ts'
import { SentinelGroup } from '../support/redis-sentinel.ts'
import { startStandalone } from '../support/redis-standalone.ts'
import { CONSOLE_RIGHTS, CONSOLE_USER, GATEWAY_RIGHTS, GATEWAY_USER } from '../support/redis-users.ts'
import { until } from '../support/until.ts'

const printed = [vi.spyOn(console, 'warn'), vi.spyOn(console, 'error'), vi.spyOn(process, 'emitWarning')]
afterEach(() => {
  for (const spy of printed) expect(spy).not.toHaveBeenCalled()
})

describe.each([
  ['a single Redis', () => startStandalone()],
  ['Redis with Sentinels', () => SentinelGroup.start()],
  ['a Redis Cluster', () => ClusterGroup.start({ replicas: 1 })],
] as const)('over %s, with the rights of docs/redis.md and no other', (_, start) => {
  let group: RedisGroup
  beforeAll(async () => {
    group = await start()
  })
  afterAll(() => group.stop())

  test('gateways accept keys that the console issues, and reject those that it revokes', async () => {
    const fleet = await Fleet.start(group, { keyService: false })
    // On a busy machine the first heartbeat may be due before the console has caught up.
    const startLines = fleet.console.log.length
    const keys = await Promise.all(Array.from({ length: 20 }, () => fleet.issue()))
    for (const { digest } of keys) await fleet.untilVerdict(digest, 'good')
    for (const { id } of keys) expect(await fleet.revoke(id)).toMatchObject({ announced: true })
    for (const { digest } of keys) await fleet.untilVerdict(digest, 'revoked', 1_000)
    expect(await group.refused()).toEqual([])
    for (const { log } of fleet.replicas) expect(log.lines).toEqual([])
    // Where the machine is busy, a change may also take longer than a heartbeat waits for it. A right that is missing has another reason.
    const warnings = fleet.console.log.slice(startLines).filter(line => Number(line['level']) > 30)
    expect(warnings.filter(({ reason }) => reason !== 'change_undelivered')).toEqual([])
  })

  test.each([
    ['gateway', GATEWAY_USER, GATEWAY_RIGHTS],
    ['console', CONSOLE_USER, CONSOLE_RIGHTS],
  ] as const)(
    'each permission of the %s is needed: without it a command is rejected',
    async (_plane, user, rights) => {
      for (const right of rights[group.kind]) {
        // One of these is the base of all others, and one is needed when a replica replaces a primary.
        if (right === '-@all' || right === '+readwrite') continue
        const others = rights[group.kind].filter(other => other !== right)
        for (const server of group.servers) await addUser(server, user, others)
        const { stop, issue, isFailing } = await startPlanes()
        const lacked = async () => {
          await issue()
          // With all of them nothing lacks a right. A plane that sees it by its probes sends nothing else.
          return (
            isFailing() || (await group.refused()).some(refusal => refusal.startsWith(right.replace('*', '')))
          )
        }
        // Some are used only when the topology is refreshed, at a random node.
        await until(`a command is rejected without ${right}`, lacked, 60_000)
        await stop()
        for (const server of group.servers) {
          await addUser(server, user, rights[group.kind])
          await server.admin.call('ACL', 'LOG', 'RESET')
        }
      }
    },
  )

  /** One console and one gateway, which need not become ready. */
  async function startPlanes() {
    const { place } = group
    const console = await startConsole({ redis: { ...place, ...CONSOLE_USER } })
    const replica = new Replica({ place, ...GATEWAY_USER })
    return {
      async issue() {
        const request = { name: 'of a test', scopes: ['workspace:read'] }
        const { body } = await console.send('POST', '/admin/v1/workspaces/ws_1/keys', request)
        await replica.verdict(digestKey(body.secret))
      },
      isFailing: () =>
        [...console.log, ...replica.log.lines].some(line => JSON.stringify(line).includes('"noperm"')),
      async stop() {
        await Promise.all([console.stop(), replica.running.stop()])
      },
    }
  }
})
