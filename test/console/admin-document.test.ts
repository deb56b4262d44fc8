import { readFileSync } from 'node:fs'
import { Validator } from '@seriousme/openapi-schema-validator'
import { beforeEach, describe, expect, test } from 'vitest'
import { ADMIN_CALLS } from '../../src/console/api-reference/admin-api.ts'
import { eachText } from '../../src/domain/key/key-texts.ts'
import { ADMIN_API_DOCUMENT, currentAdminApiDocument } from '../docs/admin-api-document.ts'
import { adminDocument, requireDescribed } from '../support/admin-contract.ts'
import { type RunningConsole, startConsole } from '../support/console.ts'

const PATH = '/admin/v1/openapi.json'
let running: RunningConsole

beforeEach(async () => {
  running = await startConsole()
})

describe('the OpenAPI document of the admin API', () => {
  test('is valid OpenAPI 3.1', async () => {
    const { status, text } = await running.send('GET', PATH)
    expect(status).toBe(200)
    expect(await new Validator().validate(JSON.parse(text))).toEqual({ valid: true })
  })

  test('describes every route of the admin API, and no other', async () => {
    const routes: string[] = []
    running.app.addHook('onRoute', ({ method, url }) => {
      // What has several methods is the refusal of those that a path does not have.
      if (url.startsWith('/admin/v1/') && typeof method === 'string' && method !== 'HEAD') {
        routes.push(`${method.toLowerCase()} ${url.slice('/admin/v1'.length).replace(/:(\w+)/g, '{$1}')}`)
      }
    })
    await running.app.ready()
    const { paths } = adminDocument()
    const described = Object.entries(paths).flatMap(([path, item]) =>
      Object.keys(item).map(method => `${method} ${path}`),
    )
    expect(described.sort()).toEqual(routes.sort())
    expect(routes.length).toBeGreaterThan(20)
  })

  test('has only calls that metrics and log lines name by a word', () => {
    const names = ADMIN_CALLS.map(({ id, operation }) => [id, operation])
    expect(names.filter(([, operation = '']) => !/^[a-z_]+$/.test(operation))).toEqual([])
  })

  test('is the one in docs/admin-api.json, so that a change of any call shows in review (npm run docs)', () => {
    expect(JSON.parse(currentAdminApiDocument())).toEqual(
      JSON.parse(readFileSync(ADMIN_API_DOCUMENT, 'utf8')),
    )
  })

  test('gives each call an id of its own, and documents it in docs/admin-api.md', () => {
    const ids = ADMIN_CALLS.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    const page = readFileSync(new URL('../../docs/admin-api.md', import.meta.url), 'utf8')
    const missing = ADMIN_CALLS.filter(
      ({ method, url }) => !page.includes(`\`${method} ${url.replace(/:(\w+)/g, '{$1}')}`),
    )
    expect(missing.map(({ id }) => id)).toEqual([])
  })

  test('says of each field and parameter what it must be, which is also the text of the error', () => {
    const nameless = ADMIN_CALLS.flatMap(({ id, query, body }) =>
      [query, body].flatMap(schema => {
        const { properties = {} } = (schema ?? {}) as {
          properties?: Record<string, { description?: string }>
        }
        return Object.entries(properties).flatMap(([name, field]) =>
          field.description === undefined ? [`${id}: ${name}`] : [],
        )
      }),
    )
    expect(nameless).toEqual([])
  })

  test('names the console by its public address, or relative to the document without one', () => {
    expect(adminDocument('https://keys.example.com/').servers).toEqual([
      { url: 'https://keys.example.com/admin/v1' },
    ])
    expect(adminDocument().servers).toEqual([{ url: '/admin/v1' }])
  })

  test('is for every caller with a token, and for HEAD; without one, the answer is 401', async () => {
    const tokens = { name: 'reader', permissions: ['audit:read'], workspaces: ['ws_1'], expiresInDays: 1 }
    const { secret } = (await running.send('POST', '/admin/v1/tokens', tokens)).body
    const headers = { authorization: `Bearer ${secret}` }
    expect((await running.send('GET', PATH, undefined, { headers })).status).toBe(200)
    expect((await running.send('HEAD', PATH, undefined, { headers })).status).toBe(200)
    const stranger = await running.send('GET', PATH, undefined, { headers: { authorization: '' } })
    expect(stranger.status).toBe(401)
  })
})

describe('the check of responses in these tests finds', () => {
  const key = {
    ...{
      id: 'key_1',
      workspaceId: 'ws_1',
      name: 'a',
      ...eachText(() => null),
      scopes: [],
      hint: 'wsk_…abcd',
    },
    ...{ createdAt: '2026-11-20T09:00:00.000Z', createdBy: 'a', expiresAt: '2026-11-21T09:00:00.000Z' },
    ...{
      revokedAt: null,
      suspendedAt: null,
      allowedCidrs: [],
      plan: null,
      rotatedFrom: null,
      replacedBy: null,
      version: 1,
    },
    ...{ state: 'active', lastUsedAt: null },
  }
  const get = { method: 'GET', url: '/admin/v1/keys/key_1', status: 200 }
  const headers = { 'content-type': 'application/json; charset=utf-8' }
  const check = (change: object) => () =>
    requireDescribed({ ...get, headers, text: JSON.stringify({ key }), ...change })

  test('nothing in a described response', () => expect(check({})).not.toThrow())
  test.each([
    ['a missing field', { text: JSON.stringify({ key: { ...key, hint: undefined } }) }, /hint/],
    ['an unknown field', { text: JSON.stringify({ key: { ...key, digest: 'x' } }) }, /additional/],
    [
      'another format of an instant',
      { text: JSON.stringify({ key: { ...key, createdAt: 'today' } }) },
      /date-time/,
    ],
    ['another status', { status: 206 }, /not a described status/],
    ['an error without a code', { status: 404, text: '{"error":"no"}' }, /code/],
    ['another content type', { headers: { 'content-type': 'text/html' } }, /content type/],
    ['an unknown path that succeeds', { url: '/admin/v1/nothing' }, /not in the OpenAPI document/],
  ])('%s', (_, change, message) => expect(check(change)).toThrow(message))
})
