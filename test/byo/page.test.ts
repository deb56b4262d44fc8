import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { decodeMessage, deriveMessageKey } from '../../src/domain/invalidation-message.ts'
import { CHANGES_CHANNEL } from '../../src/domain/wire.ts'
import { configOf, fileWith } from '../config/examples.ts'
import { RedisServer } from '../support/redis-server.ts'
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

test('the digest that stands on the page is the one that its commands print', () => {
  const [digest = ''] = blocks('sh')
  const printed = execFileSync('sh', ['-c', digest], { encoding: 'utf8' }).trim()
  expect(printed).toMatch(/^[0-9a-f]{64}$/)
  expect(digest).toContain(`# ${printed}\n`)
  expect(PAGE).toContain(`GET /internal/v1/keys/${printed.slice(0, 8)}…`)
})

test('the record on the page is one', () => {
  const [record = ''] = blocks('json')
  expectToFit(schema('Record'), JSON.parse(record))
})

test('its commands publish messages that a gateway understands, and verifies where they are signed', async () => {
  const heard: string[] = []
  const ear = redis.admin.duplicate()
  ear.on('message', (_: string, text: string) => void heard.push(text))
  await ear.subscribe(CHANGES_CHANNEL)
  const script = blocks('sh').join('\n').replaceAll('redis-cli', `redis-cli -p ${redis.port}`)
  execFileSync('sh', ['-e', '-c', script])
  await until('all arrive', () => heard.length === 4)
  const secret = Buffer.from(/^SECRET=(\S+)/m.exec(script)?.[1] ?? '', 'base64')
  const received = heard.map(text => decodeMessage(text, [deriveMessageKey(secret)]))
  expect(received.map(message => [message?.kind, message?.verified])).toEqual([
    ['change', false],
    ['heartbeat', false],
    ['change', true],
    ['heartbeat', true],
  ])
  for (const text of heard)
    expectToFit(schema(text.includes('"beat"') ? 'Heartbeat' : 'Change'), JSON.parse(text))
  ear.disconnect()
})

test('its settings are settings', () => {
  const [yaml = ''] = blocks('yaml')
  const file = yaml.replace('/run/secrets/key-service-token', fileWith('the-token-of-the-key-service'))
  const config = configOf({ file, planes: ['gateway'] })
  expect([config.keys.format, config.keyService.token]).toEqual(['opaque', 'the-token-of-the-key-service'])
})
