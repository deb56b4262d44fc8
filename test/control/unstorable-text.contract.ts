import type { InjectOptions } from 'fastify'
import { beforeEach, describe, expect, test } from 'vitest'
import { ADMIN_CALLS } from '../../src/control/admin-api/admin-calls.ts'
import { ADMIN_TOKEN, KEY_SERVICE_TOKEN } from '../support/console.ts'
import { CONSOLE, SESSION_COOKIE, type SignedIn, startSignIn } from '../support/signed-in.ts'

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
const KEY_ID = 'key_01ARZ3NDEKTSV4RRFFQ69G5FAV'
const METHODS = ['GET', 'POST', 'PATCH'] as const

type Running = Awaited<ReturnType<typeof startSignIn>>
interface Route {
  readonly app: Running['app']
  readonly method: (typeof METHODS)[number]
  readonly url: string
}

/** @param createUrl a new, empty database */
export function describeUnstorableText(name: string, createUrl: () => Promise<string>): void {
  describe(`text that no database stores, on ${name}`, () => {
    let routes: Route[]
    let ada: SignedIn
    let running: Running

    beforeEach(async () => {
      running = await startSignIn({
        databaseUrl: await createUrl(),
        leaks: { enabled: true },
        workspaceWebhooks: { enabled: true },
        signIn: { oidc: { administratorClaim: 'roles', administratorValue: 'admin' } },
      })
      routes = []
      for (const app of [running.app, running.internal]) {
        app.addHook('onRoute', ({ method, url }) => {
          const known = METHODS.find(one => one === method)
          if (known !== undefined) routes.push({ app, method: known, url })
        })
        await app.ready()
      }
      ada = await running.signedIn({ sub: 'ada', workspaces: ['ws_1'], roles: ['admin'] })
    })

    const pathOf = (url: string, value?: string) =>
      url.replace(/:\w+/g, parameter => value ?? (parameter === ':workspaceId' ? 'ws_1' : KEY_ID))

    /** As a person, a program and a gateway would. */
    const send = async (route: Route, url: string, more: InjectOptions = {}) => {
      const session = ada.browser.cookie(SESSION_COOKIE)?.value ?? ''
      const isPage = !/^\/(?:admin|internal)\//.test(route.url)
      const token = route.app === running.internal ? KEY_SERVICE_TOKEN : ADMIN_TOKEN
      const headers = isPage
        ? { host: new URL(CONSOLE).host, origin: CONSOLE, cookie: `${SESSION_COOKIE}=${session}` }
        : { authorization: `Bearer ${token}` }
      const { method } = route
      const answer = await route.app.inject({
        method,
        url,
        ...more,
        headers: { ...headers, ...more.headers },
      })
      return `${answer.statusCode} ${method} ${url} ${String(more.payload ?? '')}`
    }

    test('is 400 in each parameter of a path and in each query, at every page and every call', async () => {
      const answers: string[] = []
      for (const route of routes) {
        const names = ['cursor', 'subject', 'then', 'actor', 'state', 'x']
        const own = ADMIN_CALLS.filter(({ url }) => route.url === `/admin/v1${url}`)
        for (const { query } of own) names.push(...Object.keys(query?.properties ?? {}))
        for (const text of IN_URLS) {
          if (route.url.includes(':')) answers.push(await send(route, pathOf(route.url, text)))
          for (const each of names) answers.push(await send(route, `${pathOf(route.url)}?${each}=${text}`))
          answers.push(await send(route, `${pathOf(route.url)}?${text}=1`))
        }
      }
      expect(routes.length).toBeGreaterThan(60)
      expect(answers.filter(answer => !answer.startsWith('400 '))).toEqual([])
    })

    test('is 400 in each field of a form', async () => {
      const answers: string[] = []
      const type = { 'content-type': 'application/x-www-form-urlencoded' }
      const forms = routes.filter(({ app, method, url }) => {
        return app === running.app && method === 'POST' && !/^\/(?:admin|leaks)/.test(url)
      })
      for (const route of forms) {
        for (const text of IN_URLS) {
          for (const form of [`_csrf=${ada.csrf}&name=${text}`, `_csrf=${ada.csrf}&${text}=1`]) {
            answers.push(await send(route, pathOf(route.url), { headers: type, payload: form }))
          }
        }
        const bytes = Buffer.concat([Buffer.from(`_csrf=${ada.csrf}&name=`), Buffer.from([0xff])])
        answers.push(await send(route, pathOf(route.url), { headers: type, payload: bytes }))
      }
      expect(forms.length).toBeGreaterThan(12)
      expect(answers.filter(answer => !answer.startsWith('400 '))).toEqual([])
    })

    test('is 400 in each string and name of a JSON body, however deep', async () => {
      const answers: string[] = []
      const calls = routes.filter(
        ({ method, url }) => method !== 'GET' && /^\/(?:admin|internal)\//.test(url),
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
            answers.push(await send(route, pathOf(route.url), { headers, payload }))
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
