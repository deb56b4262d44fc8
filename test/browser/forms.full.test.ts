import type { Browser } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { signIn, visitor } from '../support/browser.ts'
import { useConsoleInBrowser } from '../support/console-in-browser.ts'
import type { ConsoleSite } from '../support/console-site.ts'
import { CHROMIUM, has } from '../support/tools.ts'

const NEW_KEY = '/workspaces/ws_1/keys/new'
const HOSTILE = `<img src=x onerror="document.title='owned'">\u202egnp.exe\u200b`

describe.skipIf(!has(CHROMIUM))('forms, in a real browser', () => {
  let browser: Browser
  let site: ConsoleSite
  useConsoleInBrowser(started => {
    browser = started.browser
    site = started.site
  })

  test.each([
    ['with JavaScript', true],
    ['without', false],
  ])('show errors next to the fields and keep the entries: %s', async (_, javaScriptEnabled) => {
    const ada = await visitor(browser, { javaScriptEnabled })
    const { page } = ada
    await signIn(ada, site, NEW_KEY)
    await page.getByLabel('Name').fill('n'.repeat(117))
    await page.getByLabel('180 days').check()
    await page.getByRole('button', { name: 'Issue key' }).click()
    const summary = page.getByRole('alert')
    await summary.getByRole('heading', { name: '2 problems to fix' }).waitFor()
    // Focus moves to the summary, with and without a script, for keyboard and screen reader users.
    expect(await page.locator(':focus').getAttribute('id')).toBe('problems')
    const name = page.getByLabel('Name')
    expect(await name.inputValue()).toBe('n'.repeat(117))
    expect(await page.getByLabel('180 days').isChecked()).toBe(true)
    const problemId = (await name.getAttribute('aria-describedby'))?.split(' ').at(-1)
    expect(await page.locator(`#${problemId}`).textContent()).toBe(
      'Shorten the name to 100 characters; it has 117',
    )
    expect(await page.title()).toMatch(/^Error: /)
    await summary.getByRole('link', { name: 'Choose at least one scope' }).click()
    await page.waitForURL('**#scopes')
    await name.fill('short enough')
    await page.getByLabel('files:read').check()
    await page.getByRole('button', { name: 'Issue key' }).click()
    await page.locator('#secret').waitFor()
    await ada.close()
  })

  test('after an expired session its page is shown again without the entries, which get into no URL', async () => {
    const ada = await visitor(browser)
    const { page } = ada
    const urls: string[] = []
    page.on('request', request => void urls.push(request.url()))
    await signIn(ada, site, NEW_KEY)
    await page.getByLabel('Name').fill('pasted-by-mistake')
    await page.getByLabel('files:read').check()
    await ada.context.clearCookies()
    await page.getByRole('button', { name: 'Issue key' }).click()
    await page.getByRole('link', { name: 'Sign in with your account' }).click()
    await page.getByText('Your session had expired').waitFor()
    expect(await page.getByLabel('Name').inputValue()).toBe('')
    expect(urls.join()).not.toContain('pasted-by-mistake')
    await page.getByLabel('Name').fill('entered again')
    await page.getByLabel('files:read').check()
    await page.getByRole('button', { name: 'Issue key' }).click()
    await page.locator('#secret').waitFor()
    await ada.close()
  })

  test('a form of an earlier session is shown again if another tab has signed in again', async () => {
    const ada = await visitor(browser)
    const urls: string[] = []
    ada.page.on('request', request => void urls.push(request.url()))
    await signIn(ada, site, NEW_KEY)
    await ada.page.getByLabel('Name').fill('pasted-before')
    await ada.page.getByLabel('files:read').check()
    await ada.context.clearCookies()
    const other = { ...ada, page: await ada.context.newPage() }
    await signIn(other, site)
    await ada.page.getByRole('button', { name: 'Issue key' }).click()
    await ada.page.getByText('Your session had expired').waitFor()
    expect(urls.join()).not.toContain('pasted-before')
    await ada.close()
  })

  test('signing in leads to the requested page', async () => {
    const ada = await visitor(browser)
    await signIn(ada, site, '/workspaces/ws_1/keys?state=revoked')
    expect(ada.page.url()).toBe(`${site.origin}/workspaces/ws_1/keys?state=revoked`)
    await ada.close()
  })

  test('a hostile name is shown as text on every page', async () => {
    const ada = await visitor(browser)
    const { page } = ada
    await signIn(ada, site, NEW_KEY)
    await page.getByLabel('Name').fill(HOSTILE)
    await page.getByLabel('files:read').check()
    await page.getByRole('button', { name: 'Issue key' }).click()
    await page.locator('#secret').waitFor()
    const places = ['/workspaces/ws_1/keys', '/workspaces/ws_1/audit']
    const { pathname } = new URL(
      (await page.getByRole('link', { name: 'I have saved it' }).getAttribute('href')) ?? '',
      site.origin,
    )
    for (const place of [...places, pathname, `${pathname}/rotate`, `${pathname}/revoke`]) {
      await page.goto(site.origin + place)
      const shown = page.locator('main bdi', { hasText: 'onerror' }).first()
      expect(await shown.textContent()).toBe(
        `<img src=x onerror="document.title='owned'">U+202Egnp.exeU+200B`,
      )
      expect(await page.locator('main img').count()).toBe(0)
      expect(await page.title()).not.toContain('owned')
    }
    expect(ada.pageErrors).toEqual([])
    await ada.close()
  })

  test('an administrator can open any workspace; other users see only their own', async () => {
    const grace = await visitor(browser)
    site.provider.person = { sub: 'grace', name: 'Grace Hopper', workspaces: [], roles: ['postern-admin'] }
    await signIn(grace, site)
    await grace.page.getByLabel('Workspace id').fill('not a workspace')
    await grace.page.getByRole('button', { name: 'Open' }).click()
    await grace.page.getByRole('alert').getByText('Enter the id of a workspace').waitFor()
    expect(await grace.page.getByLabel('Workspace id').inputValue()).toBe('not a workspace')
    await grace.page.getByLabel('Workspace id').fill('ws_9')
    await grace.page.getByRole('button', { name: 'Open' }).click()
    await grace.page.getByRole('heading', { name: 'No keys yet' }).waitFor()
    expect(new URL(grace.page.url()).pathname).toBe('/workspaces/ws_9/keys')
    await grace.close()

    site.provider.person = { sub: 'ada', name: 'Ada Lovelace', workspaces: ['ws_1'] }
    const { id } = await site.issue({ name: 'of another workspace' }, 'ws_2')
    const ada = await visitor(browser)
    await signIn(ada, site)
    const paths = [
      'ws_2/keys',
      'ws_2/audit',
      'ws_2/api',
      `ws_2/keys/${id}`,
      `ws_1/keys/${id}`,
      `ws_1/keys/${id}/revoke`,
    ]
    for (const path of paths) {
      const answer = await ada.page.goto(`${site.origin}/workspaces/${path}`)
      expect([path, answer?.status()]).toEqual([path, 404])
      await ada.page.getByRole('heading', { name: 'Page not found' }).waitFor()
    }
    await ada.close()
  })

  test('a name of two lines leaves the other cells of its row at its first line', async () => {
    await site.issue({ name: 'a long name of a key '.repeat(4).trim(), scopes: ['files:read'] })
    const ada = await visitor(browser)
    await signIn(ada, site)
    await ada.page.goto(`${site.origin}/workspaces/ws_1/keys`)
    const bottoms = await ada.page.evaluate<number[]>(`(() => {
      const name = [...document.querySelectorAll('a.key-name')].find(link => link.textContent.startsWith('a long name'))
      const lines = document.createRange()
      lines.selectNodeContents(name)
      const [first, second] = lines.getClientRects()
      const hint = name.closest('tr').querySelector('.hint-of-key').getBoundingClientRect()
      return [first.bottom, hint.bottom, second.bottom]
    })()`)
    const [first = 0, hint = 0, second = 0] = bottoms
    expect(Math.abs(hint - first)).toBeLessThan(Math.abs(hint - second))
    await ada.close()
  })
})
