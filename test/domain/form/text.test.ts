import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { SCRIPT } from '../../../src/console/platform/html/layout.ts'
import { plainPasted, plainSearch } from '../../../src/domain/form/text.ts'
import { PASTED_FORMS } from '../../support/pasted-forms.ts'

const KEY = `wsk_${'aB3'.repeat(18)}`

describe('a pasted key is read without what copying adds', () => {
  test.each(PASTED_FORMS)('%s', (_, wrap) => {
    for (const value of [KEY, 'wsk_…x7Qf', 'key_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'a.b-c~d_e/f+g==']) {
      expect(plainPasted(wrap(value))).toBe(value)
    }
  })

  test('a text that is nothing but that is empty', () => {
    for (const text of ['', ' ', '""', '\u200b\n', '“ ”']) expect(plainPasted(text)).toBe('')
  })

  test('and any text of visible ASCII characters without quotes as it is', () => {
    const value = fc.stringMatching(/^[A-Za-z0-9._~+/-]{1,80}={0,2}$/)
    fc.assert(fc.property(value, text => void expect(plainPasted(text)).toBe(text)))
    fc.assert(
      fc.property(value, fc.constantFrom(...PASTED_FORMS), (text, [, wrap]) => {
        if (!/^bearer/i.test(text)) expect(plainPasted(wrap(text.padEnd(24, 'x')))).toBe(text.padEnd(24, 'x'))
      }),
    )
  })

  test('in the browser as in the console and the command line', () => {
    const source = SCRIPT.body.toString()
    const start = source.indexOf('function plainPasted')
    const end = source.indexOf('\n}', start) + 2
    const inBrowser: unknown = runInNewContext(`${source.slice(start, end)}; plainPasted`)
    if (typeof inBrowser !== 'function') throw new TypeError('The script has no plainPasted')
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.string(),
          fc.constantFrom(...PASTED_FORMS).map(([, wrap]) => wrap(KEY)),
        ),
        text => void expect(inBrowser(text)).toBe(plainPasted(text)),
      ),
    )
  })
})

describe('a search', () => {
  test.each([
    ['“wsk_…x7Qf”', 'wsk_…x7Qf'],
    ['Bearer wsk_abc', 'wsk_abc'],
    ['`key_01AR`', 'key_01AR'],
    ['build server', 'build server'],
    ['"build server"', '"build server"'],
    ['👨‍👩‍👧', '👨‍👩‍👧'],
    ['Bearer', 'Bearer'],
  ])('for %s is for %s: a part of a name stays as it is', (typed, expected) => {
    expect(plainSearch(typed)).toBe(expected)
  })
})
