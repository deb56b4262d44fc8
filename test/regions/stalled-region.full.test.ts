import { expect, onTestFinished, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { decodeRecord, deriveRecordKey, recordKeyName } from '../../src/domain/wire.ts'
import { SIGNING_SECRET, startConsole } from '../support/console.ts'
import { RedisServer } from '../support/redis-server.ts'
import { type Link, TcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'
import { regionAt } from './region-settings.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'
const CONNECTIONS = 3

async function startRedis(): Promise<RedisServer> {
  const redis = await RedisServer.start()
  onTestFinished(() => redis.stop())
  return redis
}

test('a suspended Redis holds up no revocation: it gets nothing until it answers, and then what it missed', async () => {
  const [eu, us] = [await startRedis(), await startRedis()]
  const toUs = await TcpProxy.start(us.url)
  onTestFinished(() => toUs.stop())
  const sent: Buffer[] = []
  toUs.onPiece = (direction, bytes) => void (direction === 'forth' && sent.push(bytes))
  const regions = [regionAt('eu', eu.url), regionAt('us', `redis://127.0.0.1:${toUs.port}`)]
  const { send, health } = await startConsole({ regions })
  const stateOf = async (name: string) => (await health()).regions?.[name]
  for (const { name } of regions)
    await until(`${name} is ready`, async () => (await stateOf(name)) === 'ready')
  const issued = []
  for (let keys = 0; keys < 10; keys++) {
    issued.push((await send('POST', KEYS, { name: 'k', scopes: ['workspace:read'] })).body)
  }

  us.freeze()
  await until('us is down', async () => (await stateOf('us')) === 'down')
  // The system accepts connections for the suspended process.
  const links = new Set<Link>()
  const states = new Set<unknown>()
  await until(
    'the console has connected several times',
    async () => {
      states.add(await stateOf('us'))
      for (const link of toUs.links) links.add(link)
      return links.size >= CONNECTIONS
    },
    30_000,
  )
  expect([...states]).toEqual(['down'])
  sent.length = 0
  for (const { key } of issued) {
    const { body } = await send('POST', `/admin/v1/keys/${key.id}/revoke`)
    expect(body.regions.map(({ announced }) => announced)).toEqual([true, false])
  }
  const digests = issued.map(({ secret }) => digestKey(secret))
  const text = Buffer.concat(sent).toString('latin1')
  expect(digests.filter(digest => text.includes(digest))).toEqual([])
  us.thaw()
  await until('us is ready', async () => (await stateOf('us')) === 'ready', 30_000)
  for (const digest of digests) {
    await until('the record is there', async () => {
      const text = await us.client().get(recordKeyName(digest))
      const decoded = decodeRecord(text ?? '', digest, [deriveRecordKey(SIGNING_SECRET)])
      return decoded.ok && decoded.grant.version === 2
    })
  }
})
