import type { Command, Option } from 'commander'

/** The hidden command that the scripts of `postern completion` call. */
export const COMPLETE = '__complete'

/**
 * What may follow on the command line: one candidate a line, with its description after a tab. Nothing where a value of the
 * user's own is due; the shell then offers files.
 * @param words after the program's name; the last one is being typed, and may be empty
 */
export function completions(program: Command, words: readonly string[]): string {
  const typed = words.at(-1) ?? ''
  const before = words.slice(0, -1)
  const command = commandOf(program, before)
  const option = optionBefore(command, before)
  const candidates =
    option?.required === true
      ? (option.argChoices ?? []).map(value => [value, ''])
      : typed.startsWith('-')
        ? optionsOf(command)
        : wordsOf(command)
  return candidates
    .filter(([name = '']) => name.startsWith(typed))
    .map(([name, description]) => `${name}\t${description}\n`)
    .join('')
}

/** The command that these words lead to. */
function commandOf(program: Command, words: readonly string[]): Command {
  return words.reduce(
    (command, word) => command.commands.find(child => child.name() === word) ?? command,
    program,
  )
}

/** The option whose value is being typed, if the word before is one. */
function optionBefore(command: Command, before: readonly string[]): Option | undefined {
  const last = before.at(-1)
  return command.options.find(({ long, short }) => last !== undefined && (long === last || short === last))
}

function optionsOf(command: Command): string[][] {
  const options = command.options.flatMap(({ long, description }) =>
    long == null ? [] : [[long, description]],
  )
  return [...options, ['--help', 'print this help']]
}

function wordsOf(command: Command): string[][] {
  const children = command.commands.map(child => [child.name(), child.description()])
  const values = command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? [])
  return [...children, ...values.map(value => [value, ''])]
}
