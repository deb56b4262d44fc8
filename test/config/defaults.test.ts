import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { ConfigProblem } from '../../src/config/config-error.ts'
import { layerOfDefaults, layerOfFile } from '../../src/config/layers.ts'
import { settings } from '../../src/config/settings.ts'
import { DEFAULTS_FILE, defaultSettings } from '../docs/default-settings.ts'
import { configOf } from './examples.ts'

const TEXT = readFileSync(DEFAULTS_FILE, 'utf8')

/** Every name in the file by its path, those in comments included: a `#` stands one place before its name's indent. */
function namesIn(text: string): Set<string> {
  const names = new Set<string>()
  const open: { indent: number; name: string }[] = []
  for (const line of text.split('\n')) {
    const [, indent = '', comment, name] = /^( *)(?:#( +))?([A-Za-z]+):(?: |$)/.exec(line) ?? []
    if (name === undefined) continue
    const column = indent.length + (comment === undefined ? 0 : comment.length - 1)
    while ((open.at(-1)?.indent ?? -1) >= column) open.pop()
    open.push({ indent: column, name })
    names.add(open.map(entry => entry.name).join('.'))
  }
  return names
}

describe('config/default.yaml', () => {
  const names = namesIn(TEXT)

  it('holds the defaults of the schema: npm run docs writes it', () => {
    expect(TEXT).toBe(defaultSettings())
  })

  it.each(settings.map(({ path }) => [path]))('shows %s, as a value or as a comment (npm run docs)', path => {
    expect(names).toContain(path)
  })

  it('has the same effect as no file, and holds no secret', () => {
    const problems: ConfigProblem[] = []
    const layer = layerOfFile(TEXT, 'config/default.yaml', problems)
    expect(problems).toEqual([])
    const valuesOf = (given: typeof layer) => [...given].map(([path, { value }]) => [path, value])
    expect(valuesOf(layer)).toEqual(valuesOf(layerOfDefaults()))
    expect(configOf({ file: TEXT })).toEqual(configOf())
    for (const { path, secret } of settings) {
      const value = layer.get(path)?.value
      const harmless = path === 'database.url' || value === undefined || JSON.stringify(value).length === 2
      if (secret) expect(harmless, path).toBe(true)
    }
  })

  it('is not shared between two loads: a process may change its own settings', () => {
    const before = configOf().routes
    configOf().routes.pop()
    configOf().gateway.requestHeaders.push('X-Other')
    expect(configOf().routes).toEqual(before)
    expect(configOf().gateway.requestHeaders).not.toContain('X-Other')
  })
})
