import { Argument, type Command, type Option } from 'commander'
import { COMPLETE, type Define } from '../cli.ts'

/** Each asks the program itself, so that it knows every command, option and value of the installed version. */
const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `# Completion of postern for bash: source <(postern completion bash)
_postern() {
  local line
  COMPREPLY=()
  while IFS=$'\\t' read -r line _; do
    COMPREPLY+=("$line")
  done < <("\${COMP_WORDS[0]}" ${COMPLETE} "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _postern postern
`,
  zsh: `#compdef postern
# Completion of postern for zsh: source <(postern completion zsh)
_postern() {
  local line
  local -a candidates
  for line in "\${(@f)$("\${words[1]}" ${COMPLETE} "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] || continue
    candidates+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done
  if (( \${#candidates} )); then
    _describe 'postern' candidates
  else
    _files
  fi
}
compdef _postern postern
`,
  fish: `# Completion of postern for fish: postern completion fish | source
function __postern_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l candidates ($words[1] ${COMPLETE} $words[2..-1] 2>/dev/null)
  if set -q candidates[1]
    printf '%s\\n' $candidates
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c postern -f -a '(__postern_complete)'
`,
}

/** `postern completion bash|zsh|fish` */
export const define: Define = (completion, { host }) => {
  completion
    .addArgument(new Argument('<shell>', 'your shell').choices(Object.keys(SCRIPTS)))
    .action((shell: string) => host.write(SCRIPTS[shell] ?? ''))
}

/**
 * What may follow on the command line: one candidate a line, with its description after a tab. Nothing where a value of the
 * user's own is due; the shell then offers files.
 * @param words after the program's name; the last one is being typed, and may be empty
 */
export function completions(program: Command, words: readonly string[]): string {
  const typed = words.at(-1) ?? ''
  const before = words.slice(0, -1)
  const command = findCommand(program, before)
  const option = optionBefore(command, before)
  const candidates =
    option?.required === true
      ? (option.argChoices ?? []).map(value => [value, ''])
      : typed.startsWith('-')
        ? listOptions(command)
        : listWords(command)
  return candidates
    .filter(([name = '']) => name.startsWith(typed))
    .map(([name, description]) => `${name}\t${description}\n`)
    .join('')
}

/** The command that these words lead to. */
function findCommand(program: Command, words: readonly string[]): Command {
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

function listOptions(command: Command): string[][] {
  const options = command.options.flatMap(({ long, description }) =>
    long == null ? [] : [[long, description]],
  )
  return [...options, ['--help', 'print this help']]
}

function listWords(command: Command): string[][] {
  const children = command.commands.map(child => [child.name(), child.description()])
  const values = command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? [])
  return [...children, ...values.map(value => [value, ''])]
}
