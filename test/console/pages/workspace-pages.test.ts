import { expect, test } from 'vitest'
import { startSignIn } from '../../support/signed-in.ts'

const idsOf = (text: string) =>
  [...text.matchAll(/class="key-name" href="\/workspaces\/([^/"]+)/g)].map(([, id]) => id)

test('a person with ten workspaces or more can search them, and sees 50 on a page, each with its keys and its API', async () => {
  const { signedIn } = await startSignIn()
  const visit = async (count: number) => {
    const workspaces = Array.from({ length: count }, (_, index) => `ws_${100 + index}`)
    const { browser } = await signedIn({ sub: `of ${count}`, name: 'Ada', workspaces })
    return { browser, text: (await browser.visit('/workspaces')).text }
  }
  expect((await visit(9)).text).not.toContain('type="search"')
  expect((await visit(10)).text).toContain('type="search"')
  const { browser, text } = await visit(51)
  expect(idsOf(text)).toHaveLength(50)
  expect(text).not.toContain('First page')
  const [, next = ''] = /rel="next" href="([^"]+)"/.exec(text) ?? []
  const last = (await browser.visit(next.replaceAll('&amp;', '&'))).text
  expect(idsOf(last)).toEqual(['ws_150'])
  expect(last).toContain('First page')
  expect((await browser.visit('/workspaces/ws_100')).url).toContain('/workspaces/ws_100/keys')
  const api = async (id: string) => (await browser.visit(`/workspaces/${id}/api/openapi.json`)).status
  expect([await api('ws_100'), await api('ws_99')]).toEqual([200, 404])
})

test('the name of a workspace from a claim stands beside its id, as text, and can be searched', async () => {
  const oidc = { workspaceNamesClaim: 'workspace_names' }
  const { signedIn } = await startSignIn({ signIn: { oidc } })
  const workspaces = Array.from({ length: 11 }, (_, index) => `ws_${index}`)
  const named = { ws_1: '<b>Northwind</b>', ws_99: 'of another' }
  const { browser } = await signedIn({ sub: 'ada', name: 'Ada', workspaces, workspace_names: named })
  const shown = '<span class="workspace-name"><bdi>&lt;b&gt;Northwind&lt;/b&gt;</bdi></span>'
  const list = (await browser.visit('/workspaces')).text
  expect(list).toContain(`href="/workspaces/ws_1/keys">ws_1</a> ${shown}`)
  expect(list).not.toContain('of another')
  expect(list).toContain('Part of a workspace id or name')
  expect(idsOf((await browser.visit('/workspaces?q=NORTHW')).text)).toEqual(['ws_1'])
  expect(idsOf((await browser.visit('/workspaces?q=ws_10')).text)).toEqual(['ws_10'])
  expect((await browser.visit('/workspaces/ws_1/usage')).text).toContain(`<strong>ws_1</strong> ${shown}`)
  expect((await browser.visit('/workspaces/ws_1/revoke-all')).text).toContain(
    `<strong>ws_1</strong> ${shown}:`,
  )
  expect((await browser.visit('/workspaces/ws_2/usage')).text).not.toContain('workspace-name')
})
