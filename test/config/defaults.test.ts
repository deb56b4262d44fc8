import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { DEFAULTS_FILE } from '../../src/config/load.ts'
import { settings } from '../../src/config/settings.ts'
import { layerOfFile, type Mistake } from '../../src/config/sources.ts'

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

  it.each(settings.map(({ path }) => [path]))('shows %s, as a value or as a comment', path => {
    expect(names).toContain(path)
  })

  it('holds settings only, and none of them a secret', () => {
    const mistakes: Mistake[] = []
    const layer = layerOfFile(TEXT, 'config/default.yaml', mistakes)
    expect(mistakes).toEqual([])
    for (const { path, secret } of settings) {
      const value = layer.get(path)?.value
      const harmless = path === 'database.url' || value === undefined || JSON.stringify(value).length === 2
      if (secret) expect(harmless, path).toBe(true)
    }
  })
})
