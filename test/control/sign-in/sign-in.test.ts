import { expect, test } from 'vitest'
import { BrowserDouble } from '../../support/browser-double.ts'
import { startSignIn } from '../../support/signed-in.ts'

test('whoever wants a page signs in at the provider and is back on that page', async () => {
  const { browser } = await startSignIn()
  const ada = browser()
  const asked = await ada.visit('/?filter=active')
  expect(asked.url).toBe('https://console.test/sign-in?then=%2F%3Ffilter%3Dactive')
  const { url, text } = await ada.visit(BrowserDouble.linkIn(asked, '/sign-in'))
  expect(url).toBe('https://console.test/?filter=active')
  expect(text).toContain('Ada Lovelace')
})
