/** Splits a source file as far as the architecture tests need; not a TypeScript parser. */
export interface Import {
  readonly specifier: string
  /** Whether the import is erased at run time. */
  readonly typeOnly: boolean
}

const STATEMENT =
  /(?:^|[;}\n])\s*(?:import|export)\s+(type\s)?\s*((?:[\w$*{},\s]|\bas\b)*?)\s*from\s*(['"])(.*?)\3/g
const BARE = /(?:^|[;}\n])\s*import\s*(['"])(.*?)\1/g
const DYNAMIC = /\b(?:import|require)\s*\(\s*(['"`])(.*?)\1/g

/** Every module that the text imports, in any form. */
export function importsOf(text: string): Import[] {
  const code = withoutComments(text)
  return [
    ...[...code.matchAll(STATEMENT)].map(([, type, names = '', , specifier = '']) => ({
      specifier,
      typeOnly: type !== undefined || bindsOnlyTypes(names),
    })),
    ...[...code.matchAll(BARE)].map(([, , specifier = '']) => ({ specifier, typeOnly: false })),
    ...[...code.matchAll(DYNAMIC)].map(([, , specifier = '']) => ({ specifier, typeOnly: false })),
  ]
}

function bindsOnlyTypes(names: string): boolean {
  const list = /^\{([\s\S]*)\}$/.exec(names.trim())?.[1]
  if (list === undefined) return false
  const bound = list.split(',').filter(name => name.trim() !== '')
  return bound.length > 0 && bound.every(name => /^\s*type\s/.test(name))
}

/** Keeps strings, because import statements need them. */
export function withoutComments(text: string): string {
  return scan(text, token => (isComment(token) ? ' ' : token))
}

/** Removes comments, strings and regular expressions; a template is removed with its `${…}` parts. */
export function codeOf(text: string): string {
  return scan(text, token => (isComment(token) ? ' ' : "''"))
}

function isComment(token: string): boolean {
  return token.startsWith('//') || token.startsWith('/*')
}

const TOKEN =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\[\s\S])*`|(?<=(?:^|[=(,:;!&|?{}[\n]|return|=>)\s*)\/(?![*/])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/g

/** Replaces each comment, string, template and regular expression. */
function scan(text: string, replace: (token: string) => string): string {
  return text.replace(TOKEN, token => replace(token))
}
