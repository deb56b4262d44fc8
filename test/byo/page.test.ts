import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { decodeMessage, deriveMessageKey } from '../../src/domain/invalidation-message.ts'
import { CHANGES_CHANNEL } from '../../src/domain/wire.ts'
import { configOf, fileWith } from '../config/examples.ts'
import { RedisServer } from '../support/redis-server.ts'
import { has, OPENSSL, REDIS_CLI } from '../support/tools.ts'
import { until } from '../support/until.ts'
import { expectToFit, schema } from './contract.ts'

const PAGE = readFileSync(new URL('../../docs/bring-your-own-keys.md', import.meta.url), 'utf8')
const blocks = (language: string) =>
  [...PAGE.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    ([, text = '']) => text,
  )

let redis: RedisServer
beforeAll(async () => {
  redis = await RedisServer.start()
})
afterAll(() => redis.stop())

test('the digest on the page is the one that its commands print', () => {
  const [digest = ''] = blocks('sh')
  const printed = execFileSync('sh', ['-c', digest], { encoding: 'utf8' }).trim()
  expect(printed).toMatch(/^[0-9a-f]{64}$/)
  expect(digest).toContain(`# ${printed}\n`)
  expect(PAGE).toContain(`GET /internal/v1/keys/${printed.slice(0, 8)}…`)
})

test('the record on the page is valid', () => {
  const [record = ''] = blocks('json')
  expectToFit(schema('Record'), JSON.parse(record))
})

test.skipIf(!has(OPENSSL) || !has(REDIS_CLI))(
  'its commands publish messages that a gateway reads, and verifies if they are signed',
  async () => {
    const received: string[] = []
    const subscriber = redis.admin.duplicate()
    subscriber.on('message', (_: string, text: string) => void received.push(text))
    await subscriber.subscribe(CHANGES_CHANNEL)
    const script = blocks('sh').join('\n').replaceAll('redis-cli', `redis-cli -p ${redis.port}`)
    execFileSync('sh', ['-e', '-c', script])
    await until('all messages have arrived', () => received.length === 4)
    const secret = Buffer.from(/^SECRET=(\S+)/m.exec(script)?.[1] ?? '', 'base64')
    const messages = received.map(text => decodeMessage(text, [deriveMessageKey(secret)]))
    expect(messages.map(message => [message?.kind, message?.verified])).toEqual([
      ['change', false],
      ['heartbeat', false],
      ['change', true],
      ['heartbeat', true],
    ])
    for (const text of received)
      expectToFit(schema(text.includes('"beat"') ? 'Heartbeat' : 'Change'), JSON.parse(text))
    subscriber.disconnect()
  },
)

test('its settings exist', () => {
  const [yaml = ''] = blocks('yaml')
  const file = yaml.replace('/run/secrets/key-service-token', fileWith('the-token-of-the-key-service'))
  const config = configOf({ file, planes: ['gateway'] })
  expect([config.keys.format, config.keyService.token]).toEqual(['opaque', ['the-token-of-the-key-service']])
})
