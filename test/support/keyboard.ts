import type { Page } from 'playwright-core'
import { expect } from 'vitest'

const MOST_STOPS = 60

/** What a screen reader announces for the focused element. */
export function focusedName(page: Page): Promise<string> {
  return page.evaluate<string>(
    '(e => (e.labels?.[0] ?? e).textContent.trim().replace(/\\s+/g, " ") || e.getAttribute("aria-label") || e.id)(document.activeElement)',
  )
}

/** Presses Tab until the element has focus, which must be visible there. @param name whole, or a part that only it has */
export async function tabTo(page: Page, name: string | RegExp): Promise<void> {
  const isNamed = (text: string) => (typeof name === 'string' ? text === name : name.test(text))
  for (let stops = 0; stops < MOST_STOPS; stops++) {
    await page.keyboard.press('Tab')
    const outline = await page.evaluate<string>('getComputedStyle(document.activeElement).outlineStyle')
    if (!isNamed(await focusedName(page))) continue
    expect(`${name}: ${outline}`).toBe(`${name}: solid`)
    return
  }
  const last = await focusedName(page)
  throw new Error(`${name} cannot be reached with Tab; the last focused element was ${last}`)
}

/** Presses the next button "Copy". @returns what it copied */
export async function copyByKeyboard(page: Page): Promise<string> {
  await tabTo(page, 'Copy')
  await page.keyboard.press('Enter')
  await page.getByRole('status').getByText('Copied').waitFor({ state: 'attached' })
  return page.evaluate<string>('navigator.clipboard.readText()')
}
