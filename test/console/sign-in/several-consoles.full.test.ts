import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { BrowserDouble } from '../../support/browser-double.ts'
import { startConsole } from '../../support/console.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { ManualTimers } from '../../support/manual-timers.ts'
import { openDatabase } from '../../support/open-database.ts'
import { PostgresServer } from '../../support/postgres-server.ts'
import { CONSOLE, SESSION_COOKIE, signIn, startProvider, trusting } from '../../support/signed-in.ts'
import { NOW_MS } from '../../support/stored-keys.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { has, POSTGRES } from '../../support/tools.ts'
import { until } from '../../support/until.ts'

const KEYS = '/workspaces/ws_1/keys'
const ada = { sub: 'ada', name: 'Ada Lovelace', workspaces: ['ws_1'] }

describe.skipIf(!has(POSTGRES))('two consoles on one PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())

  /** Behind one address, asked in turn. */
  async function twoConsoles() {
    const databaseUrl = await server.migratedDatabase()
    const provider = await startProvider()
    const clock = new ManualClock()
    const start = () => startConsole(trusting(provider, { databaseUrl, parts: { clock } }))
    const [first, second] = [await start(), await start()]
    const browser = () => new BrowserDouble(CONSOLE, first.app, second.app)
    return { first, second, provider, clock, browser, signedIn: () => signIn(browser(), provider, ada) }
  }

  test('share a sign-in: one starts it, the other completes it, both accept the session', async () => {
    const { signedIn } = await twoConsoles()
    const { page, call } = await signedIn()
    expect(page.text).toContain('Ada Lovelace')
    const issued = await call('POST', KEYS, { name: 'k', scopes: ['workspace:read'] })
    expect(issued.status).toBe(201)
    for (let requests = 0; requests < 4; requests++) {
      expect((await call('GET', KEYS)).body.keys).toMatchObject([{ createdBy: 'person:ada' }])
    }
  })

  test('reject a session at once that was signed out at the other', async () => {
    const { signedIn, browser } = await twoConsoles()
    const { browser: own, csrf } = await signedIn()
    const stolen = own.cookie(SESSION_COOKIE)?.value ?? ''
    expect((await own.post('/sign-out', { _csrf: csrf })).status).toBe(303)
    expect(own.cookie(SESSION_COOKIE)).toBeUndefined()
    for (let requests = 0; requests < 2; requests++) {
      const thief = browser()
      thief.setCookie(SESSION_COOKIE, stolen)
      expect((await thief.visit('/')).url).toBe(`${CONSOLE}/sign-in`)
    }
  })

  test('sign one person out everywhere, and no other', async () => {
    const { signedIn, browser, provider } = await twoConsoles()
    const [laptop, phone] = [await signedIn(), await signedIn()]
    const bob = await signIn(browser(), provider, { ...ada, sub: 'bob' })
    expect((await laptop.browser.post('/sign-out', { _csrf: laptop.csrf, everywhere: '1' })).status).toBe(303)
    for (let requests = 0; requests < 2; requests++) {
      expect((await phone.call('GET', KEYS)).status).toBe(401)
      expect((await laptop.call('GET', KEYS)).status).toBe(401)
      expect((await bob.call('GET', KEYS)).status).toBe(200)
    }
  })

  test('share one idle limit: activity at one keeps the session alive at the other', async () => {
    const { first, second, clock, signedIn } = await twoConsoles()
    const { browser } = await signedIn()
    const cookie = `${SESSION_COOKIE}=${browser.cookie(SESSION_COOKIE)?.value}`
    const headers = { host: 'console.test', cookie }
    const send = async ({ app }: typeof first) =>
      (await app.inject({ url: `/admin/v1${KEYS}`, headers })).statusCode
    clock.advance(45 * 60_000)
    expect(await send(first)).toBe(200)
    clock.advance(45 * 60_000)
    expect(await send(second)).toBe(200)
    clock.advance(60 * 60_000)
    expect([await send(first), await send(second)]).toEqual([401, 401])
  })
})

test('a person with an expired session returns to their page after signing in, also from a submitted form', async () => {
  const provider = await startProvider()
  const clock = new ManualClock()
  const { app } = await startConsole(trusting(provider, { parts: { clock } }))
  const { browser, csrf } = await signIn(new BrowserDouble(CONSOLE, app), provider, ada)
  clock.advance(3600_000)
  const late = await browser.post(
    '/sign-out',
    { _csrf: csrf },
    { referer: `${CONSOLE}/keys?state=active&q=a+key` },
  )
  expect([late.status, late.headers['location']]).toEqual([303, '/sign-in?then=%2Fkeys%3Fstate%3Dactive'])
})

test('if the database fails, a signed-in person gets an error, not the sign-in page', async () => {
  const provider = await startProvider()
  const databaseUrl = `sqlite:${join(temporaryDirectory(), 'postern.db')}`
  const { app, log } = await startConsole(trusting(provider, { databaseUrl }))
  const { browser, call } = await signIn(new BrowserDouble(CONSOLE, app), provider, ada)
  const other = await openDatabase(databaseUrl)
  await other.writer.schema.dropTable('sessions').execute()
  await other.close()
  expect((await call('GET', KEYS)).body.code).toBe('internal_error')
  expect((await browser.send('GET', '/')).status).toBe(500)
  expect(log.map(line => line['msg'])).toContain('request failed')
})

test('a console deletes ended sessions', async () => {
  const provider = await startProvider()
  const timers = new ManualTimers()
  const clock = { wallMs: () => NOW_MS + timers.nowMs, monotonicMs: () => timers.nowMs }
  const databaseUrl = `sqlite:${join(temporaryDirectory(), 'postern.db')}`
  const { app } = await startConsole(trusting(provider, { databaseUrl, parts: { clock, timers } }))
  await signIn(new BrowserDouble(CONSOLE, app), provider, ada)
  const other = await openDatabase(databaseUrl)
  onTestFinished(() => other.close())
  const rows = async () => (await other.reader.selectFrom('sessions').select('subject').execute()).length
  expect(await rows()).toBe(1)
  timers.advance(3600_000)
  await until('it is deleted', async () => {
    timers.advance(60_000)
    return (await rows()) === 0
  })
})
