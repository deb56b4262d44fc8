import { afterAll, beforeAll, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { startWorld, type World } from '../support/world.ts'
import { expectToFit, schemaAt } from './contract.ts'

let world: World
beforeAll(async () => {
  world = await startWorld()
})
afterAll(() => world.stop())

const json = 'content/application~1json/schema'

async function post(path: string, body: unknown): Promise<{ status: number; text: string }> {
  const response = await fetch(`${world.console.urls.internal}/internal/v1${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${world.env['POSTERN_KEY_SERVICE_TOKEN']}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify(body),
  })
  return { status: response.status, text: await response.text() }
}

test('the console serves batch lookups as the contract says', async () => {
  const known = digestKey((await world.issue()).secret)
  const unknown = digestKey('an unknown key')
  const body = { digests: [known, unknown] }
  expectToFit(schemaAt(`/paths/~1internal~1v1~1lookups/post/requestBody/${json}`), body)
  const { status, text } = await post('/lookups', body)
  expect(status).toBe(200)
  const answer = JSON.parse(text) as { records: Record<string, unknown> }
  expectToFit(schemaAt(`/paths/~1internal~1v1~1lookups/post/responses/200/${json}`), answer)
  expect(Object.keys(answer.records).sort()).toEqual([known, unknown].sort())
  expect(answer.records[unknown]).toBeNull()
})

test.each([[[]], [Array.from({ length: 257 }, (_, index) => digestKey(`${index}`))], [['no digest']]])(
  'and refuses what the contract does not have: %#',
  async digests => {
    expect(schemaAt(`/paths/~1internal~1v1~1lookups/post/requestBody/${json}`)({ digests })).toBe(false)
    const { status, text } = await post('/lookups', { digests })
    expect(status).toBe(400)
    expectToFit(schemaAt(`/paths/~1internal~1v1~1lookups/post/responses/default/${json}`), JSON.parse(text))
  },
)

test('the console records the last use of a key, as the contract says', async () => {
  const { id } = await world.issue()
  const atMs = Date.now()
  const body = { used: { [id]: atMs } }
  expectToFit(schemaAt(`/paths/~1internal~1v1~1usage/post/requestBody/${json}`), body)
  expect(await post('/usage', body)).toEqual({ status: 204, text: '' })
  const { key } = (await world.admin('GET', `/keys/${id}`)).json as { key: { lastUsedAt: string } }
  expect(Math.abs(Date.parse(key.lastUsedAt) - atMs)).toBeLessThanOrEqual(60_000)
})
