import { readFileSync } from 'node:fs'
import { beforeEach, describe, expect, test } from 'vitest'
import { describeApi } from '../../../src/domain/route/describe-api.ts'
import { BrowserDouble } from '../../support/browser-double.ts'
import { consoleConfig } from '../../support/console.ts'
import { type SignedIn, startSignIn } from '../../support/signed-in.ts'

const KEYS = '/workspaces/ws_1/keys'
const FORM = { name: 'build server', scopes: 'files:read', expiry: '90', date: '' }

let nowMs: number
let ada: SignedIn
let issue: (key?: object) => Promise<string>
beforeEach(async () => {
  nowMs = Date.now()
  const clock = { wallMs: () => nowMs, monotonicMs: () => performance.now() }
  const world = await startSignIn({ parts: { clock } })
  ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
  issue = async (key = {}) => {
    const asked = { name: 'of a program', scopes: ['files:read'], ...key }
    return (await ada.call('POST', KEYS, asked)).body.key.id
  }
})
const visit = (path: string) => ada.browser.visit(path)
const onceIn = (text: string) => /name="once" value="([^"]*)"/.exec(text)?.[1] ?? ''
const send = (path: string, fields: Record<string, string>) =>
  ada.browser.post(path, { _csrf: ada.csrf, ...fields })
const names = async () => (await ada.call('GET', KEYS)).body.keys.map(key => key.name)

describe('what a page loads', () => {
  test('comes from the console, has a digest in its name, and may be cached forever', async () => {
    const { text } = await visit(KEYS)
    const links = [...text.matchAll(/(?:src|href)="([^"]*assets[^"]*)"/g)].map(([, link = '']) => link)
    const paths = [...new Set(links)]
    expect(paths.length).toBe(3)
    const types: Record<string, string> = {
      css: 'text/css; charset=utf-8',
      js: 'text/javascript; charset=utf-8',
      svg: 'image/svg+xml',
    }
    for (const path of paths) {
      const { status, headers, text: body } = await ada.browser.send('GET', path)
      const [, name, ending] = /^\/assets\/(\w+)\.[0-9a-f]{16}\.(\w+)$/.exec(path) ?? []
      const file = new URL(`../../../src/console/platform/html/assets/${name}.${ending}`, import.meta.url)
      expect([status, headers['cache-control']]).toEqual([200, 'public, max-age=31536000, immutable'])
      expect(headers['content-type']).toBe(types[ending ?? ''])
      expect(body).toBe(readFileSync(file, 'utf8'))
    }
  })

  test('is compressed for a browser that accepts it, and the page is not', async () => {
    const { text } = await visit(KEYS)
    const [path = ''] = /[^"]*console\.\w+\.css/.exec(text) ?? []
    const answered = async (href: string, accepted: string) => {
      const { headers } = await ada.browser.send('GET', href, { 'accept-encoding': accepted })
      return [headers['content-encoding'], headers['vary'], Number(headers['content-length'])] as const
    }
    const [, , whole] = await answered(path, 'identity')
    for (const accepted of ['gzip', 'br, GZip;q=0.5']) {
      const [coding, vary, length] = await answered(path, accepted)
      expect([coding, vary, length < whole / 3]).toEqual(['gzip', 'accept-encoding', true])
    }
    for (const accepted of ['', 'br', 'gzip;q=0', 'gzip; q=0.0']) {
      expect([accepted, ...(await answered(path, accepted))]).toEqual([
        accepted,
        undefined,
        'accept-encoding',
        whole,
      ])
    }
    expect((await answered(KEYS, 'gzip'))[0]).toBeUndefined()
  })

  test('is neither inline nor from another origin', async () => {
    const id = await issue()
    for (const path of [
      KEYS,
      `${KEYS}/new`,
      `${KEYS}/${id}`,
      `${KEYS}/${id}/rotate`,
      '/workspaces/ws_1/api',
    ]) {
      const { text, headers } = await visit(path)
      expect(text).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?! src=)|(?:src|href)="(?:https?:|\/\/)/)
      expect(headers['content-security-policy']).toContain("default-src 'none'")
      expect(headers['cache-control']).toBe('no-store')
    }
  })
})

describe('a form', () => {
  test('that is submitted twice issues one key and shows its secret once', async () => {
    const once = onceIn((await visit(`${KEYS}/new`)).text)
    const first = await send(`${KEYS}/new`, { ...FORM, once })
    const again = await send(`${KEYS}/new`, { ...FORM, once })
    const [secret = 'none'] = first.text.match(/wsk_[A-Za-z0-9]{54}/) ?? []
    expect(secret).toMatch(/^wsk_/)
    expect([again.status, again.text.includes(secret)]).toEqual([200, false])
    expect(again.text).toContain('Key already issued')
    expect(await names()).toEqual(['build server'])
  })

  test('that issues a key takes allowed addresses, and says what is wrong with them', async () => {
    const once = onceIn((await visit(`${KEYS}/new`)).text)
    const wrong = await send(`${KEYS}/new`, { ...FORM, once, allowedCidrs: 'the office' })
    expect(wrong.status).toBe(422)
    expect(wrong.text).toContain('This must be a list of at most 32')
    expect(wrong.text).toContain('the office')
    await send(`${KEYS}/new`, { ...FORM, once: onceIn(wrong.text), allowedCidrs: '10.1.2.3/8\r\n::1' })
    const [key] = (await ada.call('GET', KEYS)).body.keys
    expect(key).toMatchObject({ name: 'build server', allowedCidrs: ['10.0.0.0/8', '::1/128'] })
  })

  test('that is submitted again with other values changes nothing, and is shown again with them', async () => {
    const once = onceIn((await visit(`${KEYS}/new`)).text)
    await send(`${KEYS}/new`, { ...FORM, once })
    const other = await send(`${KEYS}/new`, { ...FORM, name: 'another one', once })
    expect(other.status).toBe(422)
    expect(other.text).toContain('value="another one"')
    expect(await names()).toEqual(['build server'])
    await send(`${KEYS}/new`, { ...FORM, name: 'another one', once: onceIn(other.text) })
    expect(await names()).toEqual(['another one', 'build server'])
  })

  test.each(['', 'short', 'x'.repeat(500)])('that does not arrive whole does nothing: %s', async once => {
    const { status, text } = await send(`${KEYS}/new`, { ...FORM, once })
    expect([status, text.includes('The form was incomplete')]).toEqual([422, true])
    expect(await names()).toEqual([])
  })

  test('that rotates takes effect once, and is rejected for a key that can no longer be rotated', async () => {
    const id = await issue()
    const once = onceIn((await visit(`${KEYS}/${id}/rotate`)).text)
    const fields = { overlap: '3600', expiry: '30', date: '', once }
    const first = await send(`${KEYS}/${id}/rotate`, fields)
    const again = await send(`${KEYS}/${id}/rotate`, fields)
    expect(first.text).toMatch(/wsk_[A-Za-z0-9]{54}/)
    expect(again.text).toContain('Key already issued')
    expect((await send(`${KEYS}/${id}/rotate`, { ...fields, once: 'A'.repeat(22) })).status).toBe(409)
    expect((await visit(`${KEYS}/${id}/rotate`)).status).toBe(409)
    expect(await names()).toHaveLength(2)
  })

  test('that rotates without overlap revokes the old key and shows the progress', async () => {
    const id = await issue()
    const once = onceIn((await visit(`${KEYS}/${id}/rotate`)).text)
    const { text } = await send(`${KEYS}/${id}/rotate`, {
      overlap: '0',
      expiry: '30',
      date: '',
      once,
      confirmed: 'yes',
    })
    expect(text).toMatch(/wsk_[A-Za-z0-9]{54}/)
    expect(text).toContain('</code> is revoked.')
    expect(text).toContain('id="progress"')
    expect(text).toContain('No gateways known')
    const audit = (await visit('/workspaces/ws_1/audit')).text
    expect([...audit.matchAll(/badge key-(\w+)/g)].map(([, action]) => action)).toEqual([
      'revoked',
      'rotated',
      'issued',
    ])
  })

  test('that revokes may be submitted again: nothing changes a second time', async () => {
    const id = await issue()
    const first = await send(`${KEYS}/${id}/revoke`, {})
    const again = await send(`${KEYS}/${id}/revoke`, {})
    expect(first.text).toContain('Key revoked')
    expect(first.text).not.toContain('Nothing changed:')
    expect(again.text).toContain('Nothing changed:')
  })
})

test('a form of an earlier session changes nothing and is shown again after signing in', async () => {
  const id = await issue()
  const stale = { _csrf: 'of another session' }
  const revoke = await ada.browser.post(`${KEYS}/${id}/revoke`, stale)
  expect([revoke.status, revoke.headers['location']]).toEqual([303, `${KEYS}/${id}/revoke?expired=1`])
  const signOut = await ada.browser.post('/sign-out', stale)
  expect([signOut.status, signOut.headers['location']]).toEqual([303, '/'])
  expect((await ada.call('GET', KEYS)).body.keys[0]?.state).toBe('active')
})

describe('keys of a workspace', () => {
  test('are listed fifty at a time, filtered by state', async () => {
    for (let count = 0; count < 51; count++) await issue({ name: `number ${count}` })
    const first = (await visit(`${KEYS}?state=active`)).text
    expect(first.match(/<th scope="row"/g)).toHaveLength(50)
    const [, older = ''] = /rel="next" href="([^"]*)"/.exec(first) ?? []
    const path = older.replaceAll('&amp;', '&')
    expect(path).toMatch(/^\/workspaces\/ws_1\/keys\?state=active&cursor=/)
    const last = (await visit(path)).text
    expect(last).toContain('number 0<')
    expect(last).not.toContain('rel="next"')
    expect((await visit(`${KEYS}?state=revoked`)).text).toContain('No key matches')
  })

  test('are highlighted if they expire within 14 days', async () => {
    const id = await issue({ name: 'later', expiresInDays: 14.001 })
    expect((await visit(`${KEYS}/${id}`)).text).not.toContain('This key expires')
    expect((await visit(KEYS)).text).not.toContain('within 14 days')
    nowMs += 0.002 * 86_400_000
    const { text } = await visit(KEYS)
    expect(text).toContain('One key expires within 14 days')
    expect(text).toMatch(/<strong class="soon"><time/)
    expect((await visit(`${KEYS}?state=expiring`)).text).toContain('later')
    const own = await visit(`${KEYS}/${id}`)
    expect(own.text).toMatch(/<strong>This key expires <time[^>]*>in 14 days/)
    expect(BrowserDouble.linkIn(own, `${KEYS}/${id}/rotate`)).not.toBe('')
  })
})

test('the reference is the OpenAPI document of the configured routes', async () => {
  const { text } = await ada.browser.send('GET', '/workspaces/ws_1/api/openapi.json')
  expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(describeApi(consoleConfig({}), '0.0.0'))))
})
