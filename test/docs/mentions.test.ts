import { globSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const FILES = ['*', '{src,test,docs,helm,config}/**/*'].flatMap(pattern =>
  globSync(pattern, { cwd: ROOT, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => relative(ROOT, join(entry.parentPath, entry.name))),
)

/** Whole texts: pages, the chart, and examples of settings. */
const TEXTS = FILES.filter(file =>
  /^(?:[A-Z]+\.md|docs\/.*\.md|helm\/.*\.(?:md|tpl|txt|yaml)|config\/.*\.yaml)$/.test(file),
)
const CODE = FILES.filter(file => /^(?:src|test)\/.*\.(?:ts|cjs|mjs|js|css)$/.test(file))

const FOLDERS = /(?<![\w./$@-])(?:src|test|docs|helm|config)\/[\w./-]*\w/g
const FILE_NAMES = /(?<![\w/.*$:-])\w[\w./-]*\.(?:ts|cjs|mjs|md|dot|tpl)(?![\w/*])/g
const COMMENT = /^\s*(?:\/\/|\/?\*).*|\s\/\/ .*/gm

/** Files that a reader of a page makes. */
const OTHER_NAMES = new Set(['files.mjs', 'admin-api.ts'])

function isThere(name: string): boolean {
  return FILES.some(file => file === name || file.endsWith(`/${name}`) || file.startsWith(`${name}/`))
}

function missingIn(file: string, text: string, names: readonly RegExp[]): string[] {
  const found = names.flatMap(pattern => text.match(pattern) ?? [])
  return [...new Set(found)]
    .filter(name => !OTHER_NAMES.has(name) && !isThere(name))
    .map(name => `${file} mentions ${name}`)
}

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')

test('every file that a page, the chart or an example of settings mentions exists', () => {
  expect(TEXTS.length).toBeGreaterThan(50)
  expect(TEXTS.flatMap(file => missingIn(file, read(file), [FOLDERS, FILE_NAMES]))).toEqual([])
})

test('every folder of the sources that docs/architecture.md names exists', () => {
  const names = [...read('docs/architecture.md').matchAll(/`([a-z][a-z-]*(?:\/[a-z-]*)+)`/g)]
  const folders = names.map(([, name = '']) => name.replace(/\/$/, ''))
  expect(folders.length).toBeGreaterThan(20)
  expect(folders.filter(name => !FILES.some(file => `/${file}`.includes(`/${name}/`)))).toEqual([])
})

test('each function that docs/architecture.md names on the path of a revocation is in the file beside it', () => {
  const [, table = ''] = read('docs/architecture.md').split('| file | functions |')
  const [body = ''] = table.split('\n\n')
  const rows = body.matchAll(/^\| (`.+) \| (.+) \|$/gm)
  const paths = [...rows].map(([, files = '', functions = '']) => {
    const texts = quoted(files).map(file => read(`src/${file}`))
    return { files, lost: quoted(functions).filter(name => !texts.some(text => isDeclared(name, text))) }
  })
  expect(new Set(paths.map(({ files }) => files)).size).toBe(20)
  expect(paths.filter(({ lost }) => lost.length > 0)).toEqual([])
})

const quoted = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)

function isDeclared(name: string, text: string): boolean {
  const forms = [
    `function ${name}\\b`,
    `const ${name} =`,
    `^ +(?:async )?${name}[(<](?:.*\\{)?$`,
    `^ +${name}[:,]`,
  ]
  return forms.some(form => new RegExp(form, 'm').test(text))
}

test('every file that a comment mentions exists', () => {
  const missing = CODE.flatMap(file =>
    missingIn(file, (read(file).match(COMMENT) ?? []).join('\n'), [FOLDERS, FILE_NAMES]),
  )
  expect(missing).toEqual([])
})

test('every page that the program names in a text exists', () => {
  const sources = CODE.filter(file => file.startsWith('src/'))
  expect(sources.flatMap(file => missingIn(file, read(file), [/[\w./-]*\w\.md\b/g]))).toEqual([])
})

test.each(['// see docs/gone.md', ' * The rule is in gone-file.ts.', '// src/gone/away'])(
  'a name of a file that is gone is found: %s',
  comment => {
    expect(missingIn('a.ts', comment, [FOLDERS, FILE_NAMES])).toHaveLength(1)
  },
)
