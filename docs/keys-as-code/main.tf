variable "rotated_on" {
  description = "Date of the last rotation. Change it to rotate the key."
  type        = string
}

locals {
  key = {
    label     = "OpenTofu orders-api"
    workspace = "ws_1"
    name      = "orders-api"
    scopes    = "files:read"
    lifetime  = "90d"
    overlap   = "24h"
    target    = "orders-api-key"
    namespace = "default"
  }
}

# Replaced for each rotation. The secret goes through pipes to Kubernetes; a key that does not arrive there is revoked again.
# Only then do the keys before it get their end. One that ends sooner keeps its own end (exit code 65).
resource "terraform_data" "key" {
  triggers_replace = [var.rotated_on, local.key]
  depends_on       = [terraform_data.revocation]

  provisioner "local-exec" {
    interpreter = ["bash", "-euo", "pipefail", "-c"]
    environment = merge(local.key, { id = self.id })
    command     = <<-EOT
      find_keys() { postern keys list --workspace "$workspace" --search "$1" --state active -q; }
      trap 'find_keys "$id" | xargs -r -n 1 postern keys revoke --yes' ERR
      secret="$(postern keys issue --workspace "$workspace" --scope "$scopes" --name "$name" \
        --description "$label $id" --expires-in "$lifetime")"
      printf %s "$secret" |
        kubectl create secret generic "$target" --namespace "$namespace" --from-file=key=/dev/stdin --dry-run=client -o yaml |
        kubectl apply --server-side --force-conflicts -f -

      trap - ERR
      new="$(find_keys "$id")"
      for key in $(find_keys "$label "); do
        [ "$key" = "$new" ] || postern keys edit "$key" --expires-in "$overlap" || [ $? -eq 65 ]
      done
    EOT
  }
}

# Never replaced, and destroyed last: it revokes every key of this label.
resource "terraform_data" "revocation" {
  input = local.key

  provisioner "local-exec" {
    when        = destroy
    interpreter = ["bash", "-euo", "pipefail", "-c"]
    environment = self.output
    command     = <<-EOT
      for state in active suspended; do
        postern keys list --workspace "$workspace" --search "$label " --state "$state" -q |
          xargs -r -n 1 postern keys revoke --yes
      done
      kubectl delete secret "$target" --namespace "$namespace" --ignore-not-found
    EOT
  }
}
