import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { printConfig } from '../../src/config/print-config.ts'
import { reloadSettings } from '../../src/config/reload-settings.ts'
import type { Plane } from '../../src/config/rules.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { configOf, ENOUGH, load } from './examples.ts'

const SCHEMA = {
  type: 'object',
  properties: { files: { type: 'array', items: { $ref: '#/$defs/file' } } },
  $defs: { file: {} },
}

function routesWith(file: string, more = ''): string {
  return `
routes:
  files: { path: '/v/{workspaceId}/files', responseSchema: '${file}' }
  ${more}`
}

function written(text: string): string {
  const file = join(temporaryDirectory(), 'files.schema.json')
  writeFileSync(file, text)
  return file
}

const problemsOf = (text: string, planes?: readonly Plane[]) => {
  const loaded = load({ environment: ENOUGH, file: routesWith(written(text)), ...(planes && { planes }) })
  return loaded.ok ? [] : loaded.problems.map(({ source, problem }) => `${source} ${problem}`)
}

describe('the JSON Schema of a route’s response', () => {
  test('is read from its file, and printed as the name of the file', () => {
    const file = written(JSON.stringify(SCHEMA))
    const config = configOf({ file: routesWith(file) })
    const route = config.routes.find(({ name }) => name === 'files')
    expect(route?.responseSchema).toEqual({ file, schema: SCHEMA })
    expect(printConfig(config)).toContain(`responseSchema: ${file}`)
    expect(printConfig(config)).not.toContain('$defs')
  })

  test.each([
    ['not JSON', '{', /routes\.files\.responseSchema names a file that is no JSON object/],
    ['a list', '[]', /is no JSON object/],
    [
      'an unknown type',
      '{"properties":{"a":{"type":"strng"}}}',
      /is no JSON Schema \(2020-12\): at \/properties\/a\/type it must be/,
    ],
    [
      'a reference into another file',
      '{"$ref":"other.json#/a"}',
      /refers to other\.json#\/a: a reference must be a JSON pointer/,
    ],
    ['a reference to nothing', '{"$ref":"#/$defs/missing"}', /refers to #\/\$defs\/missing/],
    ['an anchor', '{"$ref":"#file"}', /refers to #file/],
    ['too much', `{"title":"${'a'.repeat(256 * 1024)}"}`, /is larger than 256 KiB/],
  ])('is rejected: %s', (_, text, problem) => {
    expect(problemsOf(text)).toEqual([expect.stringMatching(problem)])
    expect(problemsOf(text, [])).toHaveLength(1)
  })

  test('is rejected if its file is missing, or if the gateway itself answers the route', () => {
    const missing = load({ environment: ENOUGH, file: routesWith('/nowhere/a.json') })
    expect(missing.ok ? [] : missing.problems.map(({ problem }) => problem)).toEqual([
      'names a file that cannot be read: ENOENT: no such file or directory',
    ])
    const file = written('{}')
    const own = load({
      environment: ENOUGH,
      file: routesWith(file, `auth: { path: /auth, answeredBy: gateway, responseSchema: '${file}' }`),
    })
    expect(own.ok ? [] : own.problems.map(({ source }) => source)).toEqual([
      expect.stringMatching(/settings\.yaml:\d: routes, at auth\.responseSchema$/),
    ])
  })

  test('is not read by a gateway, which describes nothing', () => {
    const loaded = load({ environment: ENOUGH, file: routesWith('/nowhere/a.json'), planes: ['gateway'] })
    expect(loaded.ok).toBe(true)
  })

  test('takes effect after a restart, as routes do, also if only the file has changed', () => {
    const file = written(JSON.stringify(SCHEMA))
    const running = configOf({ file: routesWith(file) })
    writeFileSync(file, '{"type":"array"}')
    const { changed, needRestart } = reloadSettings(running, configOf({ file: routesWith(file) }))
    expect([changed, needRestart]).toEqual([[], ['routes']])
  })
})
