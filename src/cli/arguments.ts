import type { Command } from 'commander'

/** Words that stand for a flag, anywhere before the first option. */
const WORDS_FOR_FLAGS: ReadonlyMap<string, string> = new Map([
  ['help', '--help'],
  ['version', '--version'],
])
const HELP_ALL = '--help-all'
const HELP_FLAGS: ReadonlySet<string> = new Set(['-h', '--help'])

/** The command line with its special words replaced. */
export interface Arguments {
  readonly argv: readonly string[]
  /** The words before the first option: commands, then arguments. */
  readonly words: readonly string[]
  readonly showsAll: boolean
}

/** Turns `postern help keys list`, `postern keys help`, `postern version` and `--help-all` into flags. */
export function readArguments(argv: readonly string[]): Arguments {
  const showsAll = argv.includes(HELP_ALL)
  const given = argv.map(word => (word === HELP_ALL ? '--help' : word))
  const firstOption = given.findIndex(word => word.startsWith('-'))
  const words = firstOption === -1 ? given : given.slice(0, firstOption)
  const at = words.findIndex(word => WORDS_FOR_FLAGS.has(word))
  const flag = WORDS_FOR_FLAGS.get(words[at] ?? '')
  if (flag === undefined) return { argv: given, words, showsAll }
  return { argv: [...given.toSpliced(at, 1), flag], words: words.toSpliced(at, 1), showsAll }
}

/** Rejects the help of an unknown command: commander would print the help of its parent. */
export function requireKnownCommand(program: Command, { argv, words }: Arguments): void {
  if (argv.some(word => HELP_FLAGS.has(word))) requireCommand(program, words)
}

function requireCommand(parent: Command, [word, ...more]: readonly string[]): void {
  if (word === undefined || parent.commands.length === 0) return
  const found = parent.commands.find(child => child.name() === word)
  if (found === undefined) parent.error(`error: unknown command '${word}'`)
  else requireCommand(found, more)
}
