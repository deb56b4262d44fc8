import { describe, expect, test } from 'vitest'
import * as answerSchemas from '../../src/cli/client/client.ts'
import * as configSchemas from '../../src/config/schema/schema.ts'
import { ADMIN_CALLS } from '../../src/console/api-reference/admin-api.ts'
import { confirmationsBody, lookupsBody } from '../../src/console/key-service/api.ts'
import { type Attack, attacksOn, textOf } from './attacks.ts'
import { expressionsIn, expressionsOfSource, patternsIn } from './expressions.ts'
import { type Growth, growthBeyondLinear } from './growth.ts'

const { literals, constructors } = expressionsOfSource()
const byText = new Map(literals.map(found => [`${found.path} ${found.expression}`, found]))

test('every regular expression of the program takes linear time for any text', { timeout: 300_000 }, () => {
  expect(byText.size).toBeGreaterThan(50)
  const slow = new Map([...byText].map(([name, { expression }]) => [name, slowest(expression)]))
  expect([...slow].filter(([, worst]) => worst !== null)).toEqual([])
})

test('every pattern of a schema does so, too', () => {
  const patterns = [answerSchemas, configSchemas, [lookupsBody, confirmationsBody], ADMIN_CALLS].flatMap(
    schemas => patternsIn({ ...schemas }),
  )
  expect(patterns.length).toBeGreaterThan(10)
  const slow = new Map(patterns.map(pattern => [String(pattern), slowest(pattern)]))
  expect([...slow].filter(([, worst]) => worst !== null)).toEqual([])
})

test('no regular expression is built from text', () => {
  expect(constructors).toEqual([])
})

describe('the check finds', () => {
  test('expressions in every syntactic position', () => {
    const text = [
      'const a: RegExp = /a+/g // /no/',
      'f(`x $' + '{b.replace(/c/, `$' + '{/d/u}`)} / 2 /`)',
      'RegExp(a); new RegExp("/x/")',
    ].join('\n')
    const { literals: found, constructors: made } = expressionsIn(text)
    expect(found.map(String)).toEqual(['/a+/g', '/c/', '/d/u'])
    expect(made).toBe(2)
  })

  test.each([
    /^\s*"?|"?\s*$/g,
    /\s+$/,
    /\/+$/,
    /<[^>]*>/g,
    /(?<=a.*)b|c$/,
    /(?:,\s*)*$/,
    /^(?:[a-z]+\d*)*$/,
    /(a+)+$/,
    /^(?:a|a)*$/,
    /^[^=]*=.*;.*;.*$/,
    /-----BEGIN X-----[\s\S]+?-----END X-----/g,
    /\p{Lu}+!/u,
  ])('the slow expression %s', expression => {
    expect(slowest(expression)).not.toBe(null)
  })

  test.each([/^\s*/, /(?<!\/)\/+$/, /[^\s,=]+(?:\s*=\s*(?:"[^"]*"|[^\s,]*))?/g, /^[a-z]{1,99}:$/i])(
    'nothing in the fast expression %s',
    expression => expect(slowest(expression)).toBe(null),
  )
})

function slowest(expression: RegExp): (Attack & Growth) | null {
  // All matches, if the expression is global.
  const read = (text: string) => (expression.global ? text.replace(expression, '') : expression.exec(text))
  for (const attack of attacksOn(expression)) {
    const growth = growthBeyondLinear(read, length => textOf(attack, length))
    if (growth !== null) return { ...attack, ...growth }
  }
  return null
}
