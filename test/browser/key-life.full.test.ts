import { execFileSync } from 'node:child_process'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launchBrowser, signIn, visitor } from '../support/browser.ts'
import { KEY_SERVICE_TOKEN, SIGNING_SECRET } from '../support/console.ts'
import { type ConsoleSite, startConsoleSite } from '../support/console-site.ts'
import { freePort } from '../support/free-port.ts'
import { measured } from '../support/measured-again.ts'
import { Parts } from '../support/parts.ts'
import type { Listening } from '../support/postern-process.ts'
import { untilConnected } from '../support/readiness.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { CHROMIUM, has } from '../support/tools.ts'
import { until } from '../support/until.ts'

/** The bound of the revocation guarantee. */
const A_SECOND_MS = 1000

describe.skipIf(!has(CHROMIUM))('a key’s whole life in a real browser, at a real gateway', () => {
  let browser: Browser
  const parts = new Parts()
  let redis: RedisServer
  let site: ConsoleSite
  let gateway: Listening
  beforeAll(async () => {
    browser = await launchBrowser()
    redis = await parts.redis()
    const upstream = await parts.upstream()
    const gatewayPort = await freePort()
    site = await startConsoleSite({ redisUrl: redis.url, gatewayUrl: `http://127.0.0.1:${gatewayPort}` })
    await parts.own(site)
    gateway = await parts.gateway({
      POSTERN_GATEWAY_PORT: String(gatewayPort),
      POSTERN_REDIS_URL: redis.url,
      POSTERN_KEY_SERVICE_URL: site.internal,
      POSTERN_KEY_SERVICE_TOKEN: KEY_SERVICE_TOKEN,
      POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
      POSTERN_UPSTREAM_URL: upstream.url,
    })
    await untilConnected(gateway)
  })
  afterAll(async () => {
    await browser?.close()
    await parts.stop()
  })

  /** The gateway's response to a key: 200, or the code of the denial. */
  async function tried(secret: string): Promise<number | string> {
    const headers = { authorization: `Bearer ${secret}` }
    const response = await fetch(`${gateway.urls.gateway}/api/v1/workspaces/ws_1/files`, { headers })
    return response.ok ? response.status : ((await response.json()) as { code: string }).code
  }

  /** @returns how long after its revocation in the browser the gateway first rejects the key */
  async function acceptedAfterRevocationMs(page: Page, key: { name: string; secret: string }) {
    await page.getByRole('link', { name: 'All keys' }).click()
    await page.getByRole('link', { name: 'Active' }).click()
    await page.waitForURL('**/keys?state=active')
    await page.getByRole('link', { name: key.name, exact: true }).click()
    await page.getByRole('button', { name: 'Revoke' }).click()
    const refusedAtMs = until(
      'the gateway rejects the key',
      async () => (await tried(key.secret)) === 'key_revoked' && Date.now(),
    )
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke now' }).click()
    await page.getByRole('heading', { name: 'Key revoked' }).waitFor()
    await page.getByText('of 1 gateway').waitFor()
    const committedAt = (await page.locator('#progress time').first().getAttribute('datetime')) ?? ''
    return (await refusedAtMs) - Date.parse(committedAt)
  }

  test('issued, copied, used, rotated, finished and revoked', async () => {
    const ada = await visitor(browser, { permissions: ['clipboard-read', 'clipboard-write'] })
    const { page } = ada
    const copied = () => page.evaluate<string>('navigator.clipboard.readText()')
    await signIn(ada, site)
    expect(new URL(page.url()).pathname).toBe('/workspaces/ws_1/keys')

    await page.getByRole('link', { name: 'Issue the first key' }).click()
    await page.getByLabel('Name').fill('build server')
    await page.getByLabel('files:read').check()
    await page.getByLabel('30 days').check()
    await page.getByRole('button', { name: 'Issue key' }).click()

    await page.locator('button[data-copies=secret]').click()
    await page.getByRole('status').getByText('Copied').waitFor({ state: 'attached' })
    const first = await copied()
    expect(first).toMatch(/^wsk_[A-Za-z0-9]{54}$/)
    await page.locator('button[data-copies=example-curl]').click()
    await expect.poll(copied).toContain(`curl -sS "${gateway.urls.gateway}/api/v1/auth"`)
    const command = await copied()
    expect(command).not.toContain(first)
    expect(execFileSync('bash', ['-c', command], { input: `${first}\n`, encoding: 'utf8' })).toContain(
      '"keyId"',
    )
    expect(await tried(first)).toBe(200)

    await page.getByRole('link', { name: 'I have saved it' }).click()
    await page.getByRole('heading', { name: 'build server' }).waitFor()
    expect(await page.content()).not.toContain(first)
    await page.getByRole('link', { name: 'Rotate', exact: true }).click()
    await page.getByLabel('7 days').first().check()
    await page.getByRole('button', { name: 'Rotate key' }).click()
    const second = (await page.locator('#secret').textContent()) ?? ''
    expect(second).not.toBe(first)
    expect([await tried(first), await tried(second)]).toEqual([200, 200])

    await page.getByRole('link', { name: 'I have saved it' }).click()
    await page.getByText('The old key works until').waitFor()
    await page.getByRole('button', { name: 'Finish now' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke the old key now' }).click()
    await page.getByRole('heading', { name: 'Key revoked' }).waitFor()
    await until('the gateway rejects the old key', async () => (await tried(first)) === 'key_revoked')
    expect(await tried(second)).toBe(200)

    const keys = [{ name: 'build server', secret: second }]
    const acceptedForMs = await measured({
      what: 'a key that is revoked in the browser',
      pids: () => [process.pid, redis.pid, gateway.process.child.pid ?? 0],
      measure: async () => {
        const key = keys.pop() ?? { name: 'another', ...(await site.issue({ name: 'another' })) }
        expect(await tried(key.secret)).toBe(200)
        return acceptedAfterRevocationMs(page, key)
      },
      missedByMs: ms => ms - A_SECOND_MS,
    })
    expect(acceptedForMs).toBeLessThan(A_SECOND_MS)

    await page.getByRole('link', { name: 'Audit log' }).click()
    await page.getByRole('heading', { name: 'Audit log' }).waitFor()
    const acts = () => page.locator('.entries .badge').allTextContents()
    await expect
      .poll(async () => (await acts()).slice(-4))
      .toEqual(['Revoked', 'Revoked', 'Rotated', 'Issued'])
    expect(ada.pageErrors).toEqual([])
    await ada.close()
  })
})
