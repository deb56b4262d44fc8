import { Argument } from 'commander'
import type { Define } from '../cli.ts'
import { COMPLETE } from '../complete.ts'

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
  $words[1] ${COMPLETE} $words[2..-1] 2>/dev/null
end
complete -c postern -a '(__postern_complete)'
`,
}

/** `postern completion bash|zsh|fish` */
export const define: Define = (completion, { host }) => {
  completion
    .addArgument(new Argument('<shell>', 'your shell').choices(Object.keys(SCRIPTS)))
    .action((shell: string) => host.write(SCRIPTS[shell] ?? ''))
}
