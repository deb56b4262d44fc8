import { describe, expect, it } from 'vitest'
import { codeOf, importsOf } from './source-text.ts'

describe('an import is found', () => {
  it.each([
    ["import { a } from './x.ts'", false],
    ["import a, { type B } from './x.ts'", false],
    ["import * as a from './x.ts'", false],
    ["import './x.ts'", false],
    ["export { a } from './x.ts'", false],
    ["export * from './x.ts'", false],
    ["import {\n  a,\n  type B,\n} from './x.ts'", false],
    ["const a = await import('./x.ts')", false],
    ["const a = require('./x.ts')", false],
    ["import type { A } from './x.ts'", true],
    ["import { type A, type B } from './x.ts'", true],
    ["import {\n  type A,\n} from './x.ts'", true],
    ["export type { A } from './x.ts'", true],
    ["const pattern = /['\"`]/\nimport type { A } from './x.ts'", true],
    ['const a = `it\'s`\nimport { a } from "./x.ts"', false],
    ["/* a */ import { a } from './x.ts' // b", false],
  ])('%s', (text, typeOnly) => {
    expect(importsOf(text)).toEqual([{ specifier: './x.ts', typeOnly }])
  })

  it('each of several imports in sequence', () => {
    const text =
      "import type { A } from './a.ts'\nimport { b } from './b.ts'\nimport { type C } from './c.ts'\n"
    expect(importsOf(text)).toEqual([
      { specifier: './a.ts', typeOnly: true },
      { specifier: './b.ts', typeOnly: false },
      { specifier: './c.ts', typeOnly: true },
    ])
  })
})

describe('no import is found', () => {
  it.each(["// import { a } from './x.ts'", "/*\nimport './x.ts'\n*/", 'const from = 1', "array.from('x')"])(
    'in %s',
    text => {
      expect(importsOf(text)).toEqual([])
    },
  )
})

it('codeOf removes comments, strings, templates and regular expressions', () => {
  const text = "const a = 'any' // any\n/* any */ const b = /any'/.test(`any $(1)`) ? c / d : e / any"
  expect(codeOf(text)).toBe("const a = ''  \n  const b = ''.test('') ? c / d : e / any")
})
