# The programs the server runs: commands are held by bubblewrap where there is one, and git and ripgrep are at hand.
pkgs: [ pkgs.git pkgs.ripgrep ] ++ pkgs.lib.optionals pkgs.stdenv.hostPlatform.isLinux [ pkgs.bubblewrap ]
