import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'

/** One control of a page. */
export interface Control {
  /** As a failure names it. */
  readonly control: string
  /** Controls of one kind look alike on every page. */
  readonly kind: string
  readonly style: Readonly<Record<string, string>>
}

interface Family {
  readonly name: string
  readonly selector: string
  /** Class names that only say that an element belongs to the family. */
  readonly marks: readonly string[]
  /** Where the style sheet gives it another look; the first that matches is part of its kind. */
  readonly within: readonly string[]
  readonly properties: readonly string[]
  /** Compared where the control is visible. A button, a summary and a notice grow with their text. */
  readonly sizes: readonly string[]
}

const LOOK = [
  ...['font-family', 'font-size', 'font-style', 'font-weight', 'letter-spacing', 'text-decoration-line'],
  ...['border-width', 'border-style', 'border-color', 'border-radius', 'padding', 'min-height', 'box-sizing'],
  ...['color', 'background-color', 'background-image', 'box-shadow', 'opacity', 'accent-color'],
]
const FAMILIES: readonly Family[] = [
  family('checkbox', 'input[type="checkbox"]', { sizes: ['width', 'height'] }),
  family('radio', 'input[type="radio"]', { sizes: ['width', 'height'] }),
  // Of every type: one that the style sheet forgets is unlike the others.
  family('field', 'input:not([type="hidden"]), select, textarea', { sizes: ['height'] }),
  family('button', 'button, a.button', {
    marks: ['button'],
    within: ['.person', '.search', '.title', '.bar', 'form'],
  }),
  family('summary', 'summary', { within: ['.person', '.fold', '.entries [open]', '.entries'] }),
  family('filter', '.filters a'),
  family('badge', '.badge', { marks: ['badge'], within: ['.keys'] }),
  family('notice', '.notice', { marks: ['notice'] }),
]

function family(
  name: string,
  selector: string,
  { marks = [], within = [], sizes = [] }: Partial<Pick<Family, 'marks' | 'within' | 'sizes'>> = {},
): Family {
  return { name, selector, marks, within, properties: LOOK, sizes }
}

const SCRIPT = readFileSync(new URL('./controls-of-page.js', import.meta.url), 'utf8')

/** Every control that the page shows or hides, with its computed style. */
export async function controlsOf(page: Page): Promise<readonly Control[]> {
  if (!(await page.evaluate<boolean>('"controlsOfPage" in window'))) await page.evaluate(SCRIPT)
  return page.evaluate<Control[]>(`controlsOfPage(${JSON.stringify(FAMILIES)})`)
}

/** What of a page is unlike the design: a kind that it does not have, or a property with another value. */
export function unlikeDesign(design: readonly Control[], page: readonly Control[]): string[] {
  const byKind = Map.groupBy(design, ({ kind }) => kind)
  return page.flatMap(({ control, kind, style }) => {
    const known = byKind.get(kind)
    if (known === undefined) return `${control}: no ${kind} on the page of the design`
    return Object.entries(style).flatMap(([property, value]) => {
      const expected = known.find(one => property in one.style)?.style[property] ?? value
      return value === expected
        ? []
        : `${control}: ${property} is ${value}, and ${expected} of ${kind} on the page of the design`
    })
  })
}
