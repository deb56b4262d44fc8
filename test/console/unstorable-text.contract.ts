import type { InjectOptions } from 'fastify'
import { beforeEach, describe, expect, test } from 'vitest'
import { ADMIN_CALLS } from '../../src/console/api-reference/admin-api.ts'
import { ADMIN_TOKEN } from '../support/console.ts'
import { type EveryRoute, pathOf, type Route, startWithEveryRoute } from '../support/every-route.ts'

/** Percent-encoded: NUL, half a surrogate pair, a byte that begins no character, a sequence that ends early. */
const IN_URLS = ['%00', '%ED%A0%80', '%ff', 'a%C3']
/** The content of a JSON string: NUL, each half of a surrogate pair, halves in the wrong order, a half before another character. */
const IN_JSON = [
  'a\\u0000b',
  '\\ud83d',
  '\\uDE00',
  '\\ude00\\ud83d',
  '\\\\\\u0000',
  '\\ud83d\\n',
  '\\ud83dx\\ude00',
]
const PATH = { workspaceId: 'ws_1', keyId: 'key_01ARZ3NDEKTSV4RRFFQ69G5FAV' }

/** @param createUrl a new, empty database */
export function describeUnstorableText(name: string, createUrl: () => Promise<string>): void {
  describe(`text that no database stores, on ${name}`, () => {
    let running: EveryRoute
    beforeEach(async () => {
      running = await startWithEveryRoute(await createUrl())
    })

    const send = async (route: Route, url: string, more: InjectOptions = {}) => {
      const { statusCode } = await running.sendTo(route, url, more)
      return `${statusCode} ${route.method} ${url} ${String(more.payload ?? '')}`
    }

    test('is 400 in each parameter of a path and in each query, at every page and every call', async () => {
      const answers: string[] = []
      for (const route of running.routes) {
        const names = ['cursor', 'subject', 'then', 'actor', 'state', 'x']
        const own = ADMIN_CALLS.filter(({ url }) => route.url === `/admin/v1${url}`)
        for (const { query } of own) names.push(...Object.keys(query?.properties ?? {}))
        for (const text of IN_URLS) {
          if (route.url.includes(':'))
            answers.push(
              await send(
                route,
                pathOf(route, { workspaceId: text, keyId: text, tokenId: text, eventId: text, digest: text }),
              ),
            )
          for (const each of names) answers.push(await send(route, `${pathOf(route, PATH)}?${each}=${text}`))
          answers.push(await send(route, `${pathOf(route, PATH)}?${text}=1`))
        }
      }
      expect(running.routes.length).toBeGreaterThan(60)
      expect(answers.filter(answer => !answer.startsWith('400 '))).toEqual([])
    })

    test('is 400 in each field of a form', async () => {
      const answers: string[] = []
      const type = { 'content-type': 'application/x-www-form-urlencoded' }
      const forms = running.routes.filter(({ kind, method }) => kind === 'page' && method === 'POST')
      const { csrf } = running.person
      for (const route of forms) {
        for (const text of IN_URLS) {
          for (const form of [`_csrf=${csrf}&name=${text}`, `_csrf=${csrf}&${text}=1`]) {
            answers.push(await send(route, pathOf(route, PATH), { headers: type, payload: form }))
          }
        }
        const bytes = Buffer.concat([Buffer.from(`_csrf=${csrf}&name=`), Buffer.from([0xff])])
        answers.push(await send(route, pathOf(route, PATH), { headers: type, payload: bytes }))
      }
      expect(forms.length).toBeGreaterThan(12)
      expect(answers.filter(answer => !answer.startsWith('400 '))).toEqual([])
    })

    test('is 400 in each string and name of a JSON body, however deep', async () => {
      const answers: string[] = []
      const calls = running.routes.filter(
        ({ kind, method }) => method !== 'GET' && (kind === 'admin' || kind === 'internal'),
      )
      for (const route of calls) {
        const own = ADMIN_CALLS.filter(({ url }) => route.url === `/admin/v1${url}`)
        const fields = own.flatMap(({ body }) =>
          Object.keys((body as { properties?: object })?.properties ?? {}),
        )
        for (const text of IN_JSON) {
          const bodies = [`{"${text}":1}`, `{"keys":[{"a":{"b":["${text}"]}}]}`, `["${text}"]`]
          for (const field of fields) bodies.push(`{"${field}":"${text}"}`, `{"${field}":["${text}"]}`)
          for (const payload of bodies) {
            const headers = { 'content-type': 'application/json', 'if-match': '"1"' }
            answers.push(await send(route, pathOf(route, PATH), { headers, payload }))
          }
        }
      }
      expect(calls.length).toBeGreaterThan(15)
      expect(answers.filter(answer => !answer.startsWith('400 '))).toEqual([])
    })

    test('is 400 in a report of a leaked key', async () => {
      const report = (payload: string | Buffer) =>
        running.app.inject({
          method: 'POST',
          url: '/leaks/report',
          headers: { 'content-type': 'application/json' },
          payload,
        })
      for (const text of IN_JSON) {
        expect((await report(`{"token":"${text}"}`)).statusCode).toBe(400)
        expect((await report(`{"token":"a","url":"${text}"}`)).statusCode).toBe(400)
      }
      expect(
        (await report(Buffer.from([...Buffer.from('{"token":"'), 0xff, ...Buffer.from('"}')]))).statusCode,
      ).toBe(400)
    })

    test('does not mean other text: escapes of whole characters, and of backslashes, are stored as they are', async () => {
      const issue = (description: string) =>
        running.app.inject({
          method: 'POST',
          url: '/admin/v1/workspaces/ws_1/keys',
          headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
          payload: `{"name":"a","scopes":["files:read"],"description":"${description}"}`,
        })
      for (const text of ['\\ud83d\\ude00', '\\\\u0000', '\\\\ud83d', '😀\\ud83d\\ude00x', 'é\\u00e9']) {
        const answer = await issue(text)
        expect(answer.statusCode).toBe(201)
        const { id } = answer.json<{ key: { id: string } }>().key
        const read = (await running.send('GET', `/admin/v1/keys/${id}`)).body.key.description
        expect(read).toBe(JSON.parse(`"${text}"`))
      }
    })
  })
}
