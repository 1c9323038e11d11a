{
  description = "CodeSpace: the execution layer for agent loops, an MCP server";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      forEach = make: lib.genAttrs [ "x86_64-linux" "aarch64-linux" "aarch64-darwin" ] (system: make nixpkgs.legacyPackages.${system});
      packageOf = pkgs: self.packages.${pkgs.stdenv.hostPlatform.system}.default;
    in
    {
      packages = forEach (pkgs: rec {
        codespace = pkgs.callPackage ./nix/package.nix { };
        default = codespace;
      });

      # `nix run .` serves the folder it is run in; `nix run . -- mcp DIR` is any other command.
      apps = forEach (pkgs: {
        default = {
          type = "app";
          meta.description = "Serve this folder over HTTP, or run a codespace command";
          program = lib.getExe (
            pkgs.writeShellApplication {
              name = "codespace";
              text = ''
                if [ "$#" -eq 0 ]; then set -- serve .; fi
                exec ${lib.getExe (packageOf pkgs)} "$@"
              '';
            }
          );
        };
      });

      # What the scripts of package.json run with.
      devShells = forEach (pkgs: {
        default = pkgs.mkShell {
          packages = [ pkgs.nodejs_24 ] ++ import ./nix/programs.nix pkgs;
        };
      });

      checks = forEach (pkgs: {
        package = packageOf pkgs;
        starts = pkgs.runCommand "codespace-starts" { nativeBuildInputs = [ (packageOf pkgs) ]; } ''
          export HOME=$TMPDIR/home
          mkdir -p "$HOME" app
          codespace --version
          request='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"check","version":"1"}}}'
          printf '%s\n' "$request" | codespace mcp app | grep -q '"serverInfo"'
          touch $out
        '';
      });

      nixosModules.default = import ./nix/module.nix packageOf;
    };
}
