import { expect, test } from 'vitest'
import { BrowserDouble } from '../../support/browser-double.ts'
import { startSignIn } from '../../support/signed-in.ts'

test('whoever wants a page signs in at the provider and is back on that page', async () => {
  const { browser } = await startSignIn()
  const ada = browser()
  const asked = await ada.visit('/workspaces/ws_1/keys?show=active')
  expect(asked.url).toBe('https://console.test/sign-in?then=%2Fworkspaces%2Fws_1%2Fkeys%3Fshow%3Dactive')
  const { url, text } = await ada.visit(BrowserDouble.linkIn(asked, '/sign-in'))
  expect(url).toBe('https://console.test/workspaces/ws_1/keys?show=active')
  expect(text).toContain('Ada Lovelace')
})
