from dpscale.cli import main

main()
