import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { launchBrowser, type Visitor, visitor } from '../support/browser.ts'
import { type SelfSigned, selfSigned } from '../support/certificates.ts'
import { startConsole } from '../support/console.ts'
import { freePort } from '../support/free-port.ts'
import { SESSION_COOKIE, startProvider, trusting } from '../support/signed-in.ts'
import { CHROMIUM, has } from '../support/tools.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'
/** Browsers resolve all of these to this machine and treat them as hosts of one domain. */
const CONSOLE_HOST = 'keys.corp.localhost'
const NEIGHBOUR_HOST = 'evil.corp.localhost'

describe.skipIf(!has(CHROMIUM))('in a real browser, behind a proxy that terminates TLS', () => {
  let browser: Browser
  let certificates: SelfSigned
  let tls: { cert: Buffer; key: Buffer }
  beforeAll(async () => {
    browser = await launchBrowser()
    certificates = await selfSigned()
    tls = { cert: readFileSync(certificates.certFile), key: readFileSync(certificates.keyFile) }
  })
  afterAll(async () => {
    await browser?.close()
    certificates.remove()
  })

  async function startSite() {
    const port = await freePort()
    const origin = `https://${CONSOLE_HOST}:${port}`
    const provider = await startProvider({ redirectUri: `${origin}/sign-in/callback` })
    const { app, send } = await startConsole(trusting(provider, { signIn: { publicUrl: origin } }))
    await app.listen({ host: '127.0.0.1', port: 0 })
    const behind = (app.server.address() as AddressInfo).port
    const open = new Set<Socket>()
    const front = createTlsServer(tls, socket => {
      const plain = connect(behind, '127.0.0.1')
      socket.pipe(plain).pipe(socket)
      for (const end of [socket, plain]) {
        open.add(end)
        end.on('error', () => end.destroy()).on('close', () => open.delete(end))
      }
    })
    await new Promise<void>(resolve => front.listen(port, '127.0.0.1', resolve))
    onTestFinished(() => {
      front.close()
      for (const end of open) end.destroy()
    })
    const keys = async () => (await send('GET', KEYS)).body.keys.length
    return { origin, keys }
  }

  /** A page of another site in the same domain. */
  async function startNeighbour(body: string, headers: Record<string, string[]> = {}): Promise<string> {
    const type = { 'content-type': 'text/html' }
    const server: Server = createServer(tls, (_, response) =>
      response.writeHead(200, { ...type, ...headers }).end(body),
    )
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      server.closeAllConnections()
      server.close()
    })
    return `https://${NEIGHBOUR_HOST}:${(server.address() as AddressInfo).port}/`
  }

  async function newVisitor(): Promise<Visitor> {
    const one = await visitor(browser, { ignoreHTTPSErrors: true })
    onTestFinished(() => one.close())
    return one
  }

  async function signIn(page: Page, origin: string): Promise<void> {
    await page.goto(origin)
    await page.getByRole('link', { name: 'Sign in with your account' }).click()
    await page.waitForURL(`${origin}/workspaces/ws_1/keys`)
  }

  test('users sign in and out; the cookie is host-only and not readable by scripts', async () => {
    const { origin } = await startSite()
    const { page, context, pageErrors } = await newVisitor()
    await signIn(page, origin)
    const [session, ...others] = await context.cookies(origin)
    expect(others).toEqual([])
    expect(session).toMatchObject({
      name: SESSION_COOKIE,
      domain: CONSOLE_HOST,
      path: '/',
      httpOnly: true,
      secure: true,
      sameSite: 'Lax',
    })
    expect(await page.evaluate('document.cookie')).toBe('')
    expect(await page.content()).not.toContain(session?.value)

    await page.getByText('Ada Lovelace').click()
    await page.getByRole('button', { name: 'Sign out', exact: true }).click()
    await page.waitForURL(`${origin}/sign-in`)
    expect(await context.cookies(origin)).toEqual([])
    // The back/forward cache is empty, too: the browser requests the page again and is redirected to sign in.
    await page.goBack({ waitUntil: 'commit' })
    await page.waitForURL(/\/sign-in/)
    expect(await page.textContent('body')).not.toContain('Ada Lovelace')
    expect(pageErrors).toEqual([])
  })

  test('a sibling domain cannot plant a session', async () => {
    const { origin } = await startSite()
    const { page, context } = await newVisitor()
    await signIn(page, origin)
    const [mine] = await context.cookies(origin)
    await context.clearCookies()
    const planted = (name: string) => `${name}=${mine?.value}; Domain=corp.localhost; Path=/; Secure`
    const neighbour = await startNeighbour('', {
      'set-cookie': [planted(SESSION_COOKIE), planted('postern-session')],
    })
    await page.goto(neighbour)
    await page.evaluate(`document.cookie = ${JSON.stringify(planted(SESSION_COOKIE))}`)
    expect((await context.cookies(origin)).map(({ name }) => name)).toEqual(['postern-session'])
    await page.goto(origin)
    expect(page.url()).toBe(`${origin}/sign-in`)
  })

  test('a sibling domain cannot forge requests with the browser’s cookies', async () => {
    const { origin, keys } = await startSite()
    const { page } = await newVisitor()
    await signIn(page, origin)
    const form = (path: string) =>
      `<form method="post" action="${origin}${path}"><input name="name" value="forged"><input name="scopes" value="files:read"></form>`
    for (const path of ['/workspaces/ws_1/keys/new', '/sign-out']) {
      await page.goto(await startNeighbour(form(path)))
      const [answer] = await Promise.all([
        page.waitForResponse(`${origin}${path}`),
        page.waitForURL(`${origin}${path}`),
        page.evaluate('document.forms[0].submit()'),
      ])
      expect([path, answer.status(), (await answer.request().allHeaders())['cookie']]).toEqual([
        path,
        403,
        expect.stringContaining(SESSION_COOKIE),
      ])
    }
    await page.goto(await startNeighbour(''))
    const sent = `fetch('${origin}${KEYS}', { method: 'POST', credentials: 'include', mode: 'no-cors',
      headers: { 'content-type': 'text/plain' }, body: '{"name":"forged","scopes":["files:read"]}' }).then(() => 'sent', error => String(error))`
    const asked = page.waitForRequest(`${origin}${KEYS}`)
    await page.evaluate(sent)
    await asked
    expect(await keys()).toBe(0)
    await page.goto(origin)
    expect(page.url()).toBe(`${origin}/workspaces/ws_1/keys`)
  })

  test('a sibling domain cannot frame the console', async () => {
    const { origin } = await startSite()
    const { page } = await newVisitor()
    await signIn(page, origin)
    await page.goto(await startNeighbour(`<iframe src="${origin}/workspaces/ws_1/keys"></iframe>`))
    const frame = page.frames()[1]
    await frame?.waitForLoadState()
    const shown = await frame?.content()
    expect(shown).toContain('ERR_BLOCKED_BY_RESPONSE')
    expect(shown).not.toContain('Ada Lovelace')
  })
})
